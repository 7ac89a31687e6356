// Ops that move elements without arithmetic. reshape is a view; the others copy.
#pragma once

#include <vector>

#include "autograd/op.h"

namespace tandem {

// One extent may be -1: inferred.
Tensor reshape(const Tensor& x, std::vector<Index> extents);
inline Tensor reshape(const Tensor& x, const Shape& shape) {
  return reshape(x, std::vector<Index>(shape.begin(), shape.end()));
}
// [N,…] → [N,rest].
Tensor flatten(const Tensor& x, int first_axis = 1);
Tensor permute(const Tensor& x, const std::vector<int>& order);  // axis i of the result is axis order[i] of x
Tensor transpose(const Tensor& x, int a, int b);
Tensor concat(const TensorList& xs, int axis);
Tensor stack(const TensorList& xs, int axis);
// Pieces of the given extents along axis; they must add up.
TensorList split(const Tensor& x, const std::vector<Index>& extents, int axis);
// The slices along axis 0, without that axis.
TensorList unbind(const Tensor& x);
// Elements first, first+step, … below last along axis; negative first and last count from the end.
Tensor slice(const Tensor& x, int axis, Index first, Index last, Index step = 1);
// `before` and `after` have an entry per axis.
Tensor pad(const Tensor& x, const std::vector<Index>& before, const std::vector<Index>& after, double value = 0.0);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor flip(const Tensor& x, const std::vector<int>& axes);
// x [N,H,W,C] → [N,height,width,C]. Coordinates as PyTorch's interpolate.
Tensor resize2d(const Tensor& x, Index height, Index width, ResizeMode mode, bool align_corners = false);

}  // namespace tandem
