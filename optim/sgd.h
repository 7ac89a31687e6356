// Stochastic gradient descent with momentum, as PyTorch defines it:
//   g ← g + weight_decay·w
//   b ← momentum·b + (1 - dampening)·g, with b ← g at the first update
//   w ← w - lr·b, or w ← w - lr·(g + momentum·b) with Nesterov's momentum
// (Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013).
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct SgdOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;  // needs momentum and no dampening
  Sparse sparse = Sparse::exact;
  std::vector<ParameterGroup> groups{};
};

class Sgd : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Sgd(std::vector<Parameter> parameters, const SgdOptions& options = {});
};

}  // namespace tandem::optim
