#include "autograd/ops/pool.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/pool_ops.h"
#include "core/kernels/pool.h"

namespace tandem {

namespace ops {

namespace {

using Extent = std::array<Index, 2>;

void check_image(const OpInfo& info, const char* name, const Tensor& x) {
  require(x.defined(), info.name, "{} must be given", name);
  require(is_floating(x.dtype()), info.name, "{} must be floating, got {}", name, to_string(x));
  require(x.rank() == 4, info.name, "{} must be [N,H,W,C], got {}", name, to_string(x));
}

Extent extent_of(const Tensor& x) {
  return x.defined() && x.rank() == 4 ? Extent{x.size(1), x.size(2)} : Extent{};
}

// Shape [N,H',W',C] of a pooled [N,H,W,C].
Shape pooled_shape(const OpInfo& info, Index batch, Extent extent, Index channels, const Pool2dOptions& o) {
  Shape shape{batch, 0, 0, channels};
  for (int axis = 0; axis < 2; ++axis) {
    const char* name = axis == 0 ? "height" : "width";
    require(o.kernel[axis] >= 1, info.name, "kernel must be at least 1, got [{},{}]", o.kernel[0],
            o.kernel[1]);
    require(o.stride[axis] >= 1, info.name, "stride must be at least 1, got [{},{}]", o.stride[0],
            o.stride[1]);
    require(o.padding[axis] >= 0 && 2 * o.padding[axis] <= o.kernel[axis], info.name,
            "padding must lie between 0 and half the kernel, got padding [{},{}] with kernel [{},{}]",
            o.padding[0], o.padding[1], o.kernel[0], o.kernel[1]);
    require(extent[axis] >= 1 && extent[axis] + 2 * o.padding[axis] >= o.kernel[axis], info.name,
            "kernel {} is larger than {} {} with padding {}", o.kernel[axis], name, extent[axis],
            o.padding[axis]);
    shape = shape.with(1 + axis, (extent[axis] + 2 * o.padding[axis] - o.kernel[axis]) / o.stride[axis] + 1);
  }
  return shape;
}

Shape image_shape(const Tensor& like, Extent extent) {
  return {like.size(0), extent[0], extent[1], like.size(3)};
}

void check_pooled(const OpInfo& info, const Tensor& dy, Extent extent, const Pool2dOptions& o) {
  check_image(info, "dy", dy);
  const Shape expected = pooled_shape(info, dy.size(0), extent, dy.size(3), o);
  require(dy.shape() == expected, info.name, "an image of [{},{}] pools to {}, dy is {}", extent[0],
          extent[1], to_string(expected), to_string(dy.shape()));
}

void check_positions(const OpInfo& info, const Tensor& where, const Shape& pooled) {
  require(where.defined() && (where.dtype() == DType::u8 || where.dtype() == DType::i32) &&
              where.shape() == pooled,
          info.name, "positions must be u8 or i32 {}, got {}", to_string(pooled), to_string(where));
}

}  // namespace

Result MaxPool2d::forward(Context& context, Positions& saved, const Operand& in) const {
  check_image(info, "x", in.x);
  const Shape shape = pooled_shape(info, in.x.size(0), extent_of(in.x), in.x.size(3), options);
  const Tensor y = context.empty(shape, in.x.dtype());
  saved.where = context.empty(shape, options.kernel[0] * options.kernel[1] <= 256 ? DType::u8 : DType::i32);
  context.backend.pool().max_pool2d(in.x, y, saved.where, options);
  return {y};
}

Operand MaxPool2d::backward(const Positions& saved, const Result& dy, const Needs& needs) const {
  return {apply(MaxPool2dGradient{options, extent}, {dy.y, saved.where}, needs.sink(0)).dx};
}

InputGradient MaxPool2dGradient::forward(Context& context, Positions& saved, const In& in) const {
  check_pooled(info, in.dy, extent, options);
  check_positions(info, in.where, in.dy.shape());
  const Tensor dx = context.empty(image_shape(in.dy, extent));
  context.backend.pool().max_pool2d_backward(in.dy, in.where, dx, options);
  saved.where = in.where;
  return {dx};
}

MaxPool2dGradient::In MaxPool2dGradient::backward(const Positions& saved, const InputGradient& ddx,
                                                  const Needs&) const {
  return {apply(MaxPool2dSelect{options, extent}, {ddx.dx, saved.where}).y, {}};
}

Result MaxPool2dSelect::forward(Context& context, Positions& saved, const In& in) const {
  check_image(info, "x", in.x);
  const Shape shape = pooled_shape(info, in.x.size(0), extent_of(in.x), in.x.size(3), options);
  check_positions(info, in.where, shape);
  const Tensor y = context.empty(shape);
  context.backend.pool().max_pool2d_select(in.x, in.where, y, options);
  saved.where = in.where;
  return {y};
}

MaxPool2dSelect::In MaxPool2dSelect::backward(const Positions& saved, const Result& dy, const Needs&) const {
  return {apply(MaxPool2dGradient{options, extent}, {dy.y, saved.where}).dx, {}};
}

Result AvgPool2d::forward(Context& context, Nothing&, const Operand& in) const {
  check_image(info, "x", in.x);
  const Tensor y = context.empty(pooled_shape(info, in.x.size(0), extent_of(in.x), in.x.size(3), options));
  context.backend.pool().avg_pool2d(in.x, y, options);
  return {y};
}

Operand AvgPool2d::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {apply(AvgPool2dGradient{options, extent}, {dy.y}).dx};
}

InputGradient AvgPool2dGradient::forward(Context& context, Nothing&, const OutputGradient& in) const {
  check_pooled(info, in.dy, extent, options);
  const Tensor dx = context.empty(image_shape(in.dy, extent));
  context.backend.pool().avg_pool2d_backward(in.dy, dx, options);
  return {dx};
}

OutputGradient AvgPool2dGradient::backward(const Nothing&, const InputGradient& ddx, const Needs&) const {
  return {apply(AvgPool2d{options, extent}, {ddx.dx}).y};
}

Result AdaptiveAvgPool2d::forward(Context& context, Nothing&, const Operand& in) const {
  check_image(info, "x", in.x);
  require(out[0] >= 1 && out[1] >= 1, info.name, "output extents must be at least 1, got [{},{}]", out[0],
          out[1]);
  require(in.x.size(1) >= 1 && in.x.size(2) >= 1, info.name, "an empty image {} cannot be averaged",
          to_string(in.x.shape()));
  const Tensor y = context.empty(image_shape(in.x, out));
  context.backend.pool().adaptive_avg_pool2d(in.x, y);
  return {y};
}

Operand AdaptiveAvgPool2d::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {apply(AdaptiveAvgPool2dGradient{out, extent}, {dy.y}).dx};
}

InputGradient AdaptiveAvgPool2dGradient::forward(Context& context, Nothing&, const OutputGradient& in) const {
  check_image(info, "dy", in.dy);
  require(extent_of(in.dy) == out && extent[0] >= 1 && extent[1] >= 1, info.name,
          "dy of [{},{}] expected, got {}", out[0], out[1], to_string(in.dy));
  const Tensor dx = context.empty(image_shape(in.dy, extent));
  context.backend.pool().adaptive_avg_pool2d_backward(in.dy, dx);
  return {dx};
}

OutputGradient AdaptiveAvgPool2dGradient::backward(const Nothing&, const InputGradient& ddx,
                                                   const Needs&) const {
  return {apply(AdaptiveAvgPool2d{out, extent}, {ddx.dx}).y};
}

Result GlobalAvgPool2d::forward(Context& context, Nothing&, const Operand& in) const {
  check_image(info, "x", in.x);
  require(in.x.size(1) >= 1 && in.x.size(2) >= 1, info.name, "an empty image {} cannot be averaged",
          to_string(in.x.shape()));
  const Tensor y = context.empty({in.x.size(0), in.x.size(3)});
  context.backend.pool().adaptive_avg_pool2d(in.x, y.viewed({in.x.size(0), 1, 1, in.x.size(3)}));
  return {y};
}

Operand GlobalAvgPool2d::backward(const Nothing&, const Result& dy, const Needs&) const {
  return {apply(GlobalAvgPool2dGradient{extent}, {dy.y}).dx};
}

InputGradient GlobalAvgPool2dGradient::forward(Context& context, Nothing&, const OutputGradient& in) const {
  require(in.dy.defined() && is_floating(in.dy.dtype()) && in.dy.rank() == 2, info.name,
          "dy must be floating [N,C], got {}", to_string(in.dy));
  const Index batch = in.dy.size(0), channels = in.dy.size(1);
  const Tensor dx = context.empty({batch, extent[0], extent[1], channels});
  context.backend.pool().adaptive_avg_pool2d_backward(in.dy.viewed({batch, 1, 1, channels}), dx);
  return {dx};
}

OutputGradient GlobalAvgPool2dGradient::backward(const Nothing&, const InputGradient& ddx,
                                                 const Needs&) const {
  return {apply(GlobalAvgPool2d{extent}, {ddx.dx}).y};
}

}  // namespace ops

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return apply(ops::MaxPool2d{options, ops::extent_of(x)}, {x}).y;
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return apply(ops::AvgPool2d{options, ops::extent_of(x)}, {x}).y;
}

Tensor adaptive_avg_pool2d(const Tensor& x, Index out_height, Index out_width) {
  return apply(ops::AdaptiveAvgPool2d{{out_height, out_width}, ops::extent_of(x)}, {x}).y;
}

Tensor global_avg_pool2d(const Tensor& x) { return apply(ops::GlobalAvgPool2d{ops::extent_of(x)}, {x}).y; }

OpInfos pool_ops() {
  return infos_of<ops::MaxPool2d, ops::MaxPool2dGradient, ops::MaxPool2dSelect, ops::AvgPool2d,
                  ops::AvgPool2dGradient, ops::AdaptiveAvgPool2d, ops::AdaptiveAvgPool2dGradient,
                  ops::GlobalAvgPool2d, ops::GlobalAvgPool2dGradient>();
}

}  // namespace tandem
