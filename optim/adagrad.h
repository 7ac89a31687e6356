// Adagrad (Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic
// optimization", JMLR 2011), as PyTorch defines it; t counts the updates of each parameter from 1:
//   g ← g + weight_decay·w
//   s ← s + g²
//   w ← w - lr/(1 + (t-1)·lr_decay) · g/(√s + eps)
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct AdagradOptions {
  std::optional<double> lr{};  // 1e-2 when neither this nor a schedule is given
  double lr_decay = 0.0;
  double initial_accumulator = 0.0;  // first value of s
  double eps = 1e-10;
  double weight_decay = 0.0;
  Sparse sparse = Sparse::exact;
  std::vector<ParameterGroup> groups{};
};

class Adagrad : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Adagrad(std::vector<Parameter> parameters, const AdagradOptions& options = {});
};

}  // namespace tandem::optim
