#include "autograd/ops/shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape_ops.h"
#include "core/kernels/shape.h"

namespace tandem {

namespace ops {

namespace {

std::span<const Index> first_n(const std::array<Index, kMaxRank>& values, int n) {
  return {values.data(), static_cast<std::size_t>(n)};
}

// The strided view of a whole dense tensor.
StridedView dense(const Shape& shape) { return {0, shape.strides()}; }

// Strided view of the large tensor that the window's small tensor occupies.
StridedView view_in_large(const Window& window) {
  StridedView view;
  const auto strides = window.large.strides();
  for (int i = 0; i < window.large.rank(); ++i) {
    view.offset += window.first[i] * strides[i];
    view.strides[i] = window.step[i] * strides[i];
  }
  return view;
}

// The whole of `large`, to be narrowed by the caller.
Window full_window(const Shape& large) {
  Window window{large, large, {}, {}};
  window.step.fill(1);
  return window;
}

// Whether the window's elements are contiguous in the large tensor, so that a view suffices.
bool is_contiguous(const Window& window) {
  int axis = 0;  // the outermost axis with several elements may be partial
  while (axis < window.large.rank() && window.large[axis] == 1) ++axis;
  for (int i = 0; i < window.large.rank(); ++i) {
    if (window.step[i] != 1 && window.small[i] > 1) return false;
    if (i > axis && window.small[i] != window.large[i]) return false;
  }
  return true;
}

// Copies or adds `x` into the window's part of `into`.
void place(Context& context, const Tensor& x, const Window& window, const GradOutput& into) {
  context.backend.shape().strided_copy(x, dense(window.small), into.tensor, view_in_large(window),
                                       window.small, into.accumulate);
}

// The slice for gradient `input` of a concatenation: a view if possible and no sink is offered.
Slice slice_for(const Window& window, const Needs& needs, std::size_t input) {
  return {window, needs.sink(input) == nullptr && is_contiguous(window)};
}

void require_list(const TensorList& xs, const char* op) {
  require(!xs.empty(), op, "at least one tensor is needed");
  for (std::size_t i = 0; i < xs.size(); ++i) require(xs[i].defined(), op, "tensor {} is absent", i);
}

// Casts tensors of several dtypes to the widest, taped.
TensorList all_widened(const TensorList& xs) {
  DType widest = xs[0].dtype();
  for (const Tensor& x : xs) widest = promote(widest, x.dtype());
  TensorList result = xs;
  for (Tensor& x : result) {
    if (x.dtype() != widest) x = cast(x, widest);
  }
  return result;
}

}  // namespace

Window range_of(const Shape& large, int axis, Index first, Index extent) {
  Window window = full_window(large);
  window.small = large.with(axis, extent);
  window.first[axis] = first;
  return window;
}

Result Reshape::forward(Context&, Nothing&, const Operand& in) const { return {in.x.viewed(to)}; }

Operand Reshape::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {apply(Reshape{to, from}, {dy.y}).y};
}

Result Permute::forward(Context& context, Nothing&, const Operand& in) const {
  const int rank = in.x.rank();
  const auto strides = in.x.shape().strides();
  std::array<Index, kMaxRank> extents{};
  StridedView from;
  for (int i = 0; i < rank; ++i) {
    extents[i] = in.x.shape()[order[i]];
    from.strides[i] = strides[order[i]];
  }
  const Shape shape(first_n(extents, rank));
  const GradOutput y = context.destination(shape, in.x.dtype());
  context.backend.shape().strided_copy(in.x, from, y.tensor, dense(shape), shape, y.accumulate);
  return {y.tensor};
}

Operand Permute::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  Permute inverse;
  for (int i = 0; i < dy.y.rank(); ++i) inverse.order[order[i]] = i;
  return {apply(inverse, {dy.y}, needs.sink(0)).y};
}

Result Concat::forward(Context& context, Nothing&, const Operands& in) const {
  const Index extent = std::accumulate(extents.begin(), extents.end(), Index{0});
  const Shape shape = in.list[0].shape().with(axis, extent);
  const GradOutput y = context.destination(shape, in.list[0].dtype());
  Index first = 0;
  for (const Tensor& x : in.list) {
    place(context, x, range_of(shape, axis, first, x.shape()[axis]), y);
    first += x.shape()[axis];
  }
  return {y.tensor};
}

Operands Concat::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  Operands dx{TensorList(extents.size())};
  Index first = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const Slice slice = slice_for(range_of(dy.y.shape(), axis, first, extents[i]), needs, i);
    if (needs[i]) dx.list[i] = apply(slice, {dy.y}, needs.sink(i)).y;
    first += extents[i];
  }
  return dx;
}

Result Stack::forward(Context& context, Nothing&, const Operands& in) const {
  const Shape shape = in.list[0].shape().inserted(axis, static_cast<Index>(in.list.size()));
  const GradOutput y = context.destination(shape, in.list[0].dtype());
  for (std::size_t i = 0; i < in.list.size(); ++i)
    place(context, in.list[i], range_of(shape, axis, static_cast<Index>(i), 1), y);
  return {y.tensor};
}

Operands Stack::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  Operands dx{TensorList(needs.size())};
  const Shape shape = dy.y.shape().without(axis);
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (!needs[i]) continue;
    const Slice slice = slice_for(range_of(dy.y.shape(), axis, static_cast<Index>(i), 1), needs, i);
    dx.list[i] = reshape(apply(slice, {dy.y}, needs.sink(i)).y, shape);
  }
  return dx;
}

Operands Split::forward(Context& context, Nothing&, const Operand& in) const {
  Operands out;
  out.list.reserve(extents.size());
  Index first = 0;
  for (const Index extent : extents) {
    const Window window = range_of(shape, axis, first, extent);
    Nothing none;
    out.list.push_back(Slice{window, is_contiguous(window)}.forward(context, none, {in.x}).y);
    first += extent;
  }
  return out;
}

namespace {
// The gradients of all pieces; zero for unused pieces.
TensorList with_zeros(const TensorList& pieces, const std::vector<Shape>& shapes) {
  const auto some = std::ranges::find_if(pieces, [](const Tensor& t) { return t.defined(); });
  TensorList result = pieces;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) result[i] = Tensor::zeros(shapes[i], some->options());
  }
  return result;
}
}  // namespace

Operand Split::backward(const Nothing&, const Operands& dy, const Needs& needs) const {
  std::vector<Shape> shapes;
  for (const Index extent : extents) shapes.push_back(shape.with(axis, extent));
  return {apply(Concat{axis, extents}, {with_zeros(dy.list, shapes)}, needs.sink(0)).y};
}

Operands Unbind::forward(Context&, Nothing&, const Operand& in) const {
  Operands out;
  out.list.reserve(static_cast<std::size_t>(shape[0]));
  const Shape piece = shape.without(0);
  for (Index i = 0; i < shape[0]; ++i) out.list.push_back(in.x.rows(i, 1).viewed(piece));
  return out;
}

Operand Unbind::backward(const Nothing&, const Operands& dy, const Needs& needs) const {
  const std::vector<Shape> shapes(dy.list.size(), shape.without(0));
  return {apply(Stack{0}, {with_zeros(dy.list, shapes)}, needs.sink(0)).y};
}

Result Slice::forward(Context& context, Nothing&, const Operand& in) const {
  if (view) {
    const Tensor row =
        in.x.viewed({window.large.numel()}).rows(view_in_large(window).offset, window.small.numel());
    return {row.viewed(window.small)};
  }
  const GradOutput y = context.destination(window.small, in.x.dtype());
  context.backend.shape().strided_copy(in.x, view_in_large(window), y.tensor, dense(window.small),
                                       window.small, y.accumulate);
  return {y.tensor};
}

Operand Slice::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  return {apply(Pad{window, 0.0}, {dy.y}, needs.sink(0)).y};
}

Result Pad::forward(Context& context, Nothing&, const Operand& in) const {
  const GradOutput y = context.destination(window.large, in.x.dtype());
  if (!y.accumulate) context.backend.fill(y.tensor, value);
  place(context, in.x, window, y);
  return {y.tensor};
}

Operand Pad::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  return {apply(slice_for(window, needs, 0), {dy.y}, needs.sink(0)).y};
}

Result BroadcastTo::forward(Context& context, Nothing&, const Operand& in) const {
  StridedView view;
  const auto strides = from.strides();
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i] != 1) view.strides[i + to.rank() - from.rank()] = strides[i];
  }
  const GradOutput y = context.destination(to, in.x.dtype());
  context.backend.shape().strided_copy(in.x, view, y.tensor, dense(to), to, y.accumulate);
  return {y.tensor};
}

Operand BroadcastTo::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {sum_to(dy.y, from)};
}

Result Flip::forward(Context& context, Nothing&, const Operand& in) const {
  const Shape& shape = in.x.shape();
  StridedView view = dense(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    if ((axes >> i & 1u) == 0 || shape[i] == 0) continue;
    view.offset += (shape[i] - 1) * view.strides[i];
    view.strides[i] = -view.strides[i];
  }
  const GradOutput y = context.destination(shape, in.x.dtype());
  context.backend.shape().strided_copy(in.x, view, y.tensor, dense(shape), shape, y.accumulate);
  return {y.tensor};
}

Operand Flip::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  return {apply(*this, {dy.y}, needs.sink(0)).y};
}

Result Resize2d::forward(Context& context, Nothing&, const Operand& in) const {
  const Tensor y = context.empty(to, in.x.dtype());
  context.backend.shape().resize2d(in.x, y, options);
  return {y};
}

Operand Resize2d::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {apply(Resize2dAdjoint{*this}, {dy.y}).dx};
}

InputGradient Resize2dAdjoint::forward(Context& context, Nothing&, const OutputGradient& in) const {
  const Tensor dx = context.empty(resize.from, in.dy.dtype());
  context.backend.shape().resize2d_backward(in.dy, dx, resize.options);
  return {dx};
}

OutputGradient Resize2dAdjoint::backward(const Nothing&, const InputGradient& ddx, const Needs&) const {
  return {apply(resize, {ddx.dx}).y};
}

}  // namespace ops

Tensor reshape(const Tensor& x, std::vector<Index> extents) {
  Index known = 1;
  int inferred = -1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] != -1) {
      require(extents[i] >= 0, "reshape", "extent {} of axis {} is negative; only -1 (inferred) may be",
              extents[i], i);
      known *= extents[i];
      continue;
    }
    require(inferred < 0, "reshape", "only one extent may be -1, axes {} and {} both are", inferred, i);
    inferred = static_cast<int>(i);
  }
  if (inferred >= 0) {
    require(known > 0 && x.numel() % known == 0, "reshape",
            "{} with {} elements has no extent for axis {} beside {}", to_string(x), x.numel(), inferred,
            known);
    extents[static_cast<std::size_t>(inferred)] = x.numel() / known;
  }
  const Shape shape{std::span<const Index>(extents)};
  require(shape.numel() == x.numel(), "reshape", "{} has {} elements, {} has {}", to_string(x), x.numel(),
          to_string(shape), shape.numel());
  if (shape == x.shape()) return x;
  return apply(ops::Reshape{x.shape(), shape}, {x}).y;
}

Tensor flatten(const Tensor& x, int first_axis) {
  const int first = normalized_axis(first_axis, std::max(x.rank(), 1), "flatten");
  std::vector<Index> extents(x.shape().begin(), x.shape().begin() + first);
  extents.push_back(x.shape().product(first, x.rank()));
  return reshape(x, std::move(extents));
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  require(static_cast<int>(order.size()) == x.rank(), "permute", "{} axes are ordered, {} has {}",
          order.size(), to_string(x), x.rank());
  ops::Permute op;
  std::uint32_t seen = 0;
  int moved_from = -1;  // the last axis of x, among those with several elements, in the order of the result
  bool moves = false;
  for (int i = 0; i < x.rank(); ++i) {
    const int axis = op.order[i] = normalized_axis(order[static_cast<std::size_t>(i)], x.rank(), "permute");
    require((seen >> axis & 1u) == 0, "permute", "axis {} is named twice", axis);
    seen |= 1u << axis;
    if (x.shape()[axis] == 1) continue;
    moves |= axis < moved_from;
    moved_from = axis;
  }
  if (!moves) {  // only axes of extent 1 move: a view
    std::vector<Index> extents;
    for (int i = 0; i < x.rank(); ++i) extents.push_back(x.shape()[op.order[i]]);
    return reshape(x, std::move(extents));
  }
  return apply(op, {x}).y;
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(normalized_axis(a, x.rank(), "transpose"))],
            order[static_cast<std::size_t>(normalized_axis(b, x.rank(), "transpose"))]);
  return permute(x, order);
}

Tensor concat(const TensorList& xs, int axis) {
  ops::require_list(xs, "concat");
  const Shape& shape = xs[0].shape();
  ops::Concat op{normalized_axis(axis, shape.rank(), "concat"), {}};
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Shape& other = xs[i].shape();
    require(other.rank() == shape.rank() && other.with(op.axis, 0) == shape.with(op.axis, 0), "concat",
            "tensors must agree on every axis but {}: tensor 0 is {}, tensor {} is {}", op.axis,
            to_string(shape), i, to_string(other));
    op.extents.push_back(other[op.axis]);
  }
  if (xs.size() == 1) return xs[0];
  return apply(op, {ops::all_widened(xs)}).y;
}

Tensor stack(const TensorList& xs, int axis) {
  ops::require_list(xs, "stack");
  const Shape& shape = xs[0].shape();
  for (std::size_t i = 1; i < xs.size(); ++i) {
    require(xs[i].shape() == shape, "stack", "tensors must have one shape: tensor 0 is {}, tensor {} is {}",
            to_string(shape), i, to_string(xs[i].shape()));
  }
  return apply(ops::Stack{normalized_axis(axis, shape.rank() + 1, "stack")}, {ops::all_widened(xs)}).y;
}

TensorList split(const Tensor& x, const std::vector<Index>& extents, int axis) {
  const int at = normalized_axis(axis, x.rank(), "split");
  Index total = 0;
  for (const Index extent : extents) {
    require(extent >= 0, "split", "extent {} is negative", extent);
    total += extent;
  }
  require(total == x.shape()[at] && !extents.empty(), "split", "pieces sum to {}, not to axis {} of {}",
          total, at, to_string(x));
  return apply(ops::Split{at, extents, x.shape()}, {x}).list;
}

TensorList unbind(const Tensor& x) {
  require(x.rank() > 0, "unbind", "a scalar has no axis to unbind");
  return apply(ops::Unbind{x.shape()}, {x}).list;
}

Tensor slice(const Tensor& x, int axis, Index first, Index last, Index step) {
  const int at = normalized_axis(axis, x.rank(), "slice");
  const Index extent = x.shape()[at];
  require(step > 0, "slice", "step {} is not positive; use flip to reverse", step);
  const Index begin = first < 0 ? first + extent : first, end = last < 0 ? last + extent : last;
  require(begin >= 0 && begin <= end && end <= extent, "slice", "range {} to {} lies outside axis {} of {}",
          first, last, at, to_string(x));
  ops::Window window = ops::range_of(x.shape(), at, begin, (end - begin + step - 1) / step);
  window.step[at] = step;
  if (window.small == window.large) return x;
  return apply(ops::Slice{window, ops::is_contiguous(window)}, {x}).y;
}

Tensor pad(const Tensor& x, const std::vector<Index>& before, const std::vector<Index>& after, double value) {
  const auto rank = static_cast<std::size_t>(x.rank());
  require(before.size() == rank && after.size() == rank, "pad",
          "{} axes need as many entries, before has {}, after {}", rank, before.size(), after.size());
  ops::Window window = ops::full_window(x.shape());
  for (int i = 0; i < x.rank(); ++i) {
    const Index front = before[static_cast<std::size_t>(i)], back = after[static_cast<std::size_t>(i)];
    require(front >= 0 && back >= 0, "pad", "axis {} is padded by {} and {}; use slice to crop", i, front,
            back);
    window.large = window.large.with(i, front + x.shape()[i] + back);
    window.first[i] = front;
  }
  if (window.small == window.large) return x;
  return apply(ops::Pad{window, value}, {x}).y;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require(broadcast(x.shape(), shape, "broadcast_to") == shape, "broadcast_to", "{} does not broadcast to {}",
          to_string(x), to_string(shape));
  return apply(ops::BroadcastTo{x.shape(), shape}, {x}).y;
}

Tensor flip(const Tensor& x, const std::vector<int>& axes) {
  ops::Flip op;
  for (const int axis : axes) {
    const std::uint32_t bit = 1u << normalized_axis(axis, x.rank(), "flip");
    require((op.axes & bit) == 0, "flip", "axis {} is named twice", axis);
    op.axes |= bit;
  }
  return op.axes ? apply(op, {x}).y : x;
}

Tensor resize2d(const Tensor& x, Index height, Index width, const ResizeOptions& options) {
  require(x.rank() == 4 && is_floating(x.dtype()), "resize2d", "expects floating images [N,H,W,C], got {}",
          to_string(x));
  require(height > 0 && width > 0, "resize2d", "size {}x{} is not positive", height, width);
  require(x.shape()[1] > 0 && x.shape()[2] > 0, "resize2d", "{} has no pixels to resize", to_string(x));
  require(options.mode == ResizeMode::bilinear || !options.align_corners, "resize2d",
          "align_corners applies to bilinear only, got {}", "nearest");
  for (const double scale : options.scale)
    require(std::isfinite(scale) && scale >= 0.0, "resize2d",
            "a scale must be positive, or 0 for the ratio of the extents, got {}", scale);
  const Shape to = x.shape().with(1, height).with(2, width);
  if (to == x.shape()) return x;
  ops::Resize2d op{x.shape(), to, options};
  for (int axis = 0; axis < 2; ++axis) {
    if (to[1 + axis] == x.size(1 + axis)) op.options.scale[axis] = 0.0;
  }
  return apply(op, {x}).y;
}

OpInfos shape_ops() {
  return infos_of<ops::Reshape, ops::Permute, ops::Concat, ops::Stack, ops::Split, ops::Unbind, ops::Slice,
                  ops::Pad, ops::BroadcastTo, ops::Flip, ops::Resize2d, ops::Resize2dAdjoint>();
}

}  // namespace tandem
