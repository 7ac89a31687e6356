// Convolutions on channels-last images. All accumulate in f32 (f64 for f64); filter and bias gradients are
// f32. Throws UserError, naming the shapes, when ranks, channels, groups or options do not fit.
#pragma once

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

// x [N,H,W,C], filter [O,KH,KW,C/groups], bias [O] or absent → [N,H',W',O] with
// H' = (H + 2·padding - dilation·(KH-1) - 1)/stride + 1. Depthwise: groups = C.
// `sums`, if given, becomes f32 [2,O] with Σ y and Σ y² over all positions if the device computes them for
// free, else absent: for batch_norm_train. No gradient flows through it.
Tensor conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
              const Conv2dOptions& options = {}, Tensor* sums = nullptr);

// The adjoint of conv2d as a function of its input. x [N,H,W,C], filter [C,KH,KW,O/groups], bias [O] or
// absent → [N,H',W',O] with H' = (H-1)·stride - 2·padding + dilation·(KH-1) + output_padding + 1.
// output_padding is less than stride or dilation.
Tensor conv_transpose2d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
                        const Conv2dOptions& options = {}, std::array<Index, 2> output_padding = {0, 0});

struct Conv1dOptions {
  Index stride = 1, padding = 0, dilation = 1, groups = 1;
};
// x [N,L,C], filter [O,K,C/groups] → [N,L',O].
Tensor conv1d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
              const Conv1dOptions& options = {});

}  // namespace tandem
