// Cast: an explicit change of dtype in a model.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

// Casts to another floating type, rounding once; the gradient is cast back. Later ops follow their cast rule:
// under a precision policy a product casts to the policy's 16-bit type for any input, and neutral ops follow
// the type of the cast.
class Cast final : public Module {
 public:
  // Throws UserError unless `dtype` is floating.
  explicit Cast(DType dtype);

  // x must be floating.
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  DType dtype_;
};

}  // namespace tandem::nn
