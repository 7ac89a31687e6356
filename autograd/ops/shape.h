// Ops that move elements without arithmetic, for any dtype. Reshapes and ranges of the outermost axis (slice,
// split, unbind with step 1) are views that share the storage; the others copy. All are differentiable any
// number of times.
//
// Errors: UserError "[op] …" for an axis out of range, extents that do not fit, or more than kMaxRank axes.
#pragma once

#include <vector>

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

// One extent may be -1 (inferred).
Tensor reshape(const Tensor& x, std::vector<Index> extents);
inline Tensor reshape(const Tensor& x, const Shape& shape) {
  return reshape(x, std::vector<Index>(shape.begin(), shape.end()));
}
inline Tensor reshape(const Tensor& x, std::initializer_list<Index> extents) {
  return reshape(x, std::vector<Index>(extents));
}
// [N,…] → [N,rest].
Tensor flatten(const Tensor& x, int first_axis = 1);
Tensor permute(const Tensor& x, const std::vector<int>& order);  // axis i of the result is axis order[i] of x
Tensor transpose(const Tensor& x, int a, int b);
// Tensors that agree on every other axis; the result has their widest dtype.
Tensor concat(const TensorList& xs, int axis);
// Tensors of one shape, along a new axis.
Tensor stack(const TensorList& xs, int axis);
// Pieces of the given extents along axis, which must sum to its extent.
TensorList split(const Tensor& x, const std::vector<Index>& extents, int axis);
// The slices along axis 0, without that axis.
TensorList unbind(const Tensor& x);
// Elements first, first+step, … below last along axis; negative first and last count from the end.
Tensor slice(const Tensor& x, int axis, Index first, Index last, Index step = 1);
// `before` and `after` have an entry per axis.
Tensor pad(const Tensor& x, const std::vector<Index>& before, const std::vector<Index>& after,
           double value = 0.0);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor flip(const Tensor& x, const std::vector<int>& axes);
// x [N,H,W,C] → [N,height,width,C]. Coordinates as PyTorch's interpolate: with a size, or, with
// options.scale, with a scale_factor that is not recomputed. An axis whose extent does not change keeps its
// pixels for any scale.
Tensor resize2d(const Tensor& x, Index height, Index width, const ResizeOptions& options);

}  // namespace tandem
