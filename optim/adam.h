// Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015), as PyTorch defines it.
// Weight decay is added to the gradient; t counts the updates of each parameter:
//   m ← β1·m + (1-β1)·g
//   v ← β2·v + (1-β2)·g²
//   w ← w - lr·m/(1-β1^t) / (√v/√(1-β2^t) + eps)
// amsgrad replaces v by its running maximum (Reddi, Kale and Kumar, "On the convergence of Adam and beyond",
// ICLR 2018).
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct AdamOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool amsgrad = false;
  Sparse sparse = Sparse::exact;
  std::vector<ParameterGroup> groups{};
};

class Adam : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Adam(std::vector<Parameter> parameters, const AdamOptions& options = {});
};

}  // namespace tandem::optim
