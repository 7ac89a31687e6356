// Pooling on channels-last images [N,H,W,C].
#pragma once

#include "autograd/op.h"

namespace tandem {

// Output extent (H + 2·padding - kernel)/stride + 1, rounded down; padding at most half the kernel.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor adaptive_avg_pool2d(const Tensor& x, Index out_height, Index out_width);
// [N,H,W,C] → [N,C].
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace tandem
