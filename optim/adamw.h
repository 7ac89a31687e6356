// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR
// 2019), as PyTorch defines it: w ← w·(1 - lr·weight_decay), then a step of Adam without decay
// (optim/adam.h).
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct AdamWOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  Sparse sparse = Sparse::exact;
  std::vector<ParameterGroup> groups{};
};

class AdamW : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit AdamW(std::vector<Parameter> parameters, const AdamWOptions& options = {});
};

}  // namespace tandem::optim
