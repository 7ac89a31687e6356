// Dropout layer; the identity in evaluation.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

// Zeroes each element with probability p in [0,1) and scales the rest by 1/(1-p), keyed by the active
// RandomScope.
class Dropout final : public Module {
 public:
  explicit Dropout(double p = 0.5);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  double p_;
};

}  // namespace tandem::nn
