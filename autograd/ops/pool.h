// Pooling on channels-last images [N,H,W,C]; results have the dtype of x. Throws UserError when x is not a
// floating image, the kernel or stride is below 1, the padding exceeds half the kernel, or a window is larger
// than the padded image.
#pragma once

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

// Output extent (H + 2·padding - kernel)/stride + 1, rounded down; padding at most half the kernel.
// Max: NaN counts as largest; the gradient goes to the first maximum of a window.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
// Windows [floor(i·H/out_height), ceil((i+1)·H/out_height)), as PyTorch's.
Tensor adaptive_avg_pool2d(const Tensor& x, Index out_height, Index out_width);
// [N,H,W,C] → [N,C].
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace tandem
