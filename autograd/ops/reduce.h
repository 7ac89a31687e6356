// Reductions. `axes` may be negative; an empty list means all axes. Accumulation is in f32 or wider.
#pragma once

#include <vector>

#include "autograd/op.h"

namespace tandem {

using Axes = std::vector<int>;

Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
// Two-pass; divides by n - correction. Throws UserError when n <= correction.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1.0, bool keep_axes = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
// Equal extrema share the gradient evenly. Throws UserError for an empty range.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
// i64; the first of equal elements; NaN counts as the extremum.
Tensor argmax(const Tensor& x, int axis = -1, bool keep_axis = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keep_axis = false);
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
Tensor cumsum(const Tensor& x, int axis);

enum class NormOrder : std::uint8_t { one, two, infinity };
// Gradient 0 at the origin.
Tensor norm(const Tensor& x, NormOrder order = NormOrder::two, const Axes& axes = {}, bool keep_axes = false);

// The adjoint of broadcasting: sums over the axes along which `shape` was broadcast to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tandem
