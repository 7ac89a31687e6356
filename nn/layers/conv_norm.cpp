#include "nn/layers/conv_norm.h"

namespace tandem::nn {

Tensor conv_norm(Conv2d& conv, BatchNorm& norm, const Tensor& x, const std::function<Tensor()>& residual) {
  Tensor sums;
  const Tensor y = conv(x, norm.training() ? &sums : nullptr);
  return norm(y, residual ? residual() : Tensor{}, sums);
}

}  // namespace tandem::nn
