// RMSprop (Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012), as PyTorch
// defines it:
//   g ← g + weight_decay·w
//   s ← α·s + (1-α)·g²
//   d = g/(√s + eps)
//   w ← w - lr·d, or with momentum b ← momentum·b + d and w ← w - lr·b
// The centered form replaces √s by √(s - m²) with m ← α·m + (1-α)·g (Graves, "Generating sequences with
// recurrent neural networks", 2013).
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct RmspropOptions {
  std::optional<double> lr{};  // 1e-2 when neither this nor a schedule is given
  double alpha = 0.99;         // smoothing of the squares
  double eps = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0;
  bool centered = false;
  Sparse sparse = Sparse::exact;
  std::vector<ParameterGroup> groups{};
};

class Rmsprop : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Rmsprop(std::vector<Parameter> parameters, const RmspropOptions& options = {});
};

}  // namespace tandem::optim
