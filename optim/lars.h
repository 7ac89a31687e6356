// LARS (You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017). For each parameter
//   ratio = trust_coefficient·‖w‖ / (‖g‖ + weight_decay·‖w‖ + eps)
//   b ← momentum·b + lr·ratio·(g + weight_decay·w)
//   w ← w - b
// The ratio is 1 when a norm is zero or the parameter is not adapted. As in the paper, the momentum includes
// the learning rate, so a change of the rate acts gradually.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct LarsOptions {
  std::optional<double> lr{};  // 0.1 when neither this nor a schedule is given
  double momentum = 0.9;
  double weight_decay = 0.0;
  double trust_coefficient = 1e-3;
  double eps = 0.0;
  bool adapt_vectors = false;  // apply trust ratios to biases and normalisation parameters (rank 0 and 1) too
  std::vector<ParameterGroup> groups{};
};

class Lars : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Lars(std::vector<Parameter> parameters, const LarsOptions& options = {});
};

}  // namespace tandem::optim
