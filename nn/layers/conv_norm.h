// Fusion of a convolution with the following batch norm.
#pragma once

#include <functional>

#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"

namespace tandem::nn {

// norm(conv(x), residual()), evaluated in this order. In training, batch norm takes its statistics from the
// convolution's own pass if the device provides them.
Tensor conv_norm(Conv2d& conv, BatchNorm& norm, const Tensor& x,
                 const std::function<Tensor()>& residual = {});

}  // namespace tandem::nn
