// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020,
// algorithm 2 with φ the identity). m, v and t as in optim/adam.h. For each parameter
//   w ← w - lr·‖w‖/‖u‖·u
// The ratio of the norms is 1 when one is zero or the parameter is not adapted.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct LambOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.0;
  bool adapt_vectors = false;  // apply trust ratios to biases and normalisation parameters (rank 0 and 1) too
  std::vector<ParameterGroup> groups{};
};

class Lamb : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Lamb(std::vector<Parameter> parameters, const LambOptions& options = {});
};

}  // namespace tandem::optim
