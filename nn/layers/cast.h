// Cast: a change of type written down in the model, where precision would otherwise decide alone.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

// The same values in another floating type, rounded once; the gradient is cast back. What follows goes by its
// cast rule: under a precision policy a product takes the policy's 16-bit type whatever it is given, and
// neutral ops follow the type of the cast.
class Cast final : public Module {
 public:
  // UserError unless `dtype` is floating.
  explicit Cast(DType dtype);

  // Floating x.
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  DType dtype_;
};

}  // namespace tandem::nn
