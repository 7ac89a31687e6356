// Layer, RMS and group norm, and the residual sum before a norm.
#include <cmath>
#include <vector>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/norm_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/kernels/norm.h"
#include "core/kernels/random.h"

namespace tandem {

namespace ops {

namespace {

// x.shape() without the last axes.
Shape rows_of(const Tensor& x, int axes) {
  Shape rows;
  for (int axis = 0; axis < x.rank() - axes; ++axis) rows = rows.inserted(axis, x.shape()[axis]);
  return rows;
}

DType result_type(const OpInfo& info, const Context& context, NormResult result) {
  return result == NormResult::for_product ? type_for_product(info, context.dtype) : context.dtype;
}

// With an absent mean: RMS norm.
RowNormForward forward_arguments(Context& context, RowNormTensors::Saved& saved, const RowNormTensors::In& in,
                                 const RowNormTensors& op, DType result) {
  saved.x = in.x;
  saved.gamma = in.gamma;
  return {.x = in.x,
          .gamma = in.gamma,
          .beta = in.beta,
          .y = context.empty(in.x.shape(), result),
          .mean = saved.mean,
          .rstd = saved.rstd,
          .eps = op.eps};
}

RowNormBackward backward_arguments(const RowNormTensors& op, const RowNormTensors::Saved& saved,
                                   const Tensor& dy, const Needs& needs) {
  RowNormBackward args{.x = saved.x, .gamma = saved.gamma, .mean = saved.mean, .rstd = saved.rstd, .dy = dy};
  if (needs[0]) {
    const bool over_dy = needs.may_overwrite(dy) && dy.dtype() == saved.x.dtype();
    args.dx = over_dy ? dy.detach() : Tensor::empty(saved.x.shape(), saved.x.options());
  }
  const TensorOptions wide = saved.rstd.options();
  if (needs[1]) args.dgamma = Tensor::empty(op.parameter_shape, wide);
  if (needs[2]) args.dbeta = Tensor::empty(op.parameter_shape, wide);
  return args;
}

// normal·gamma + beta in the dtype of the fused op.
Tensor scale_and_shift(const Tensor& normal, const Tensor& gamma, const Tensor& beta, DType dtype) {
  Tensor y = gamma.defined() ? mul(normal, gamma) : normal;
  if (beta.defined()) y = add(y, beta);
  return cast(y, dtype);
}

Tensor scaled_to_one(const Tensor& x, const Axes& axes, double eps) {
  return mul(x, rsqrt(add(mean(mul(x, x), axes, true), eps)));
}
Tensor normalised(const Tensor& x, const Axes& axes, double eps) {
  return scaled_to_one(sub(x, mean(x, axes, true)), axes, eps);
}

void check_parameter(const OpInfo& info, const Tensor& t, const Shape& shape, const char* what) {
  require(!t.defined() || (t.shape() == shape && is_floating(t.dtype())), info.name,
          "{} must be floating and of shape {}, got {}", what, to_string(shape), to_string(t));
}

void check_x(const OpInfo& info, const Tensor& x, int least_rank) {
  require(x.defined() && x.rank() >= least_rank && is_floating(x.dtype()), info.name,
          "x must be floating with at least {} axes, got {}", least_rank, to_string(x));
}

}  // namespace

Result LayerNorm::forward(Context& context, Saved& saved, const In& in) const {
  const Shape rows = rows_of(in.x, axes);
  saved.mean = context.empty(rows, wide_of(in.x.dtype()));
  saved.rstd = context.empty(rows, wide_of(in.x.dtype()));
  const RowNormForward args =
      forward_arguments(context, saved, in, *this, result_type(info, context, result));
  context.backend.norm().layer_norm(args);
  return {args.y};
}

RowNormTensors::In LayerNorm::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const RowNormBackward args = backward_arguments(*this, saved, dy.y, needs);
  backend_for(dy.y.device()).norm().layer_norm_backward(args);
  return {args.dx, args.dgamma, args.dbeta};
}

Result LayerNorm::composed(const LayerNorm& op, const In& in) {
  Axes last;
  for (int axis = -op.axes; axis < 0; ++axis) last.push_back(axis);
  const Tensor normal = normalised(cast(in.x, wide_of(in.x.dtype())), last, op.eps);
  return {scale_and_shift(normal, in.gamma, in.beta, in.x.dtype())};
}

Result RmsNorm::forward(Context& context, Saved& saved, const In& in) const {
  saved.rstd = context.empty(rows_of(in.x, 1), wide_of(in.x.dtype()));
  const RowNormForward args =
      forward_arguments(context, saved, in, *this, result_type(info, context, result));
  context.backend.norm().layer_norm(args);
  return {args.y};
}

RowNormTensors::In RmsNorm::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const RowNormBackward args = backward_arguments(*this, saved, dy.y, needs);
  backend_for(dy.y.device()).norm().layer_norm_backward(args);
  return {args.dx, args.dgamma, {}};
}

Result RmsNorm::composed(const RmsNorm& op, const In& in) {
  const Tensor normal = scaled_to_one(cast(in.x, wide_of(in.x.dtype())), {-1}, op.eps);
  return {scale_and_shift(normal, in.gamma, {}, in.x.dtype())};
}

namespace {

DType sum_type(const Tensor& x, DType branch) { return branch == DType::f64 ? branch : x.dtype(); }

}  // namespace

ResidualNormResult ResidualNorm::forward(Context& context, Saved& saved, const In& in) const {
  const DType statistics = wide_of(promote(in.x.dtype(), context.dtype));
  const Shape rows = rows_of(in.x, 1);
  const DType type = sum_type(in.x, context.dtype);
  const Out out{context.empty(in.x.shape(), type), context.empty(in.x.shape(), wide ? type : context.dtype)};
  saved = {out.sum, in.gamma, rms ? Tensor() : context.empty(rows, statistics),
           context.empty(rows, statistics), context.empty({0}, in.branch.dtype())};
  context.backend.norm().residual_norm({.norm = {.x = out.sum,
                                                 .gamma = in.gamma,
                                                 .beta = in.beta,
                                                 .y = out.normed,
                                                 .mean = saved.mean,
                                                 .rstd = saved.rstd,
                                                 .eps = eps},
                                        .residual = in.x,
                                        .branch = in.branch,
                                        .key = key,
                                        .p = p});
  return out;
}

ResidualNorm::In ResidualNorm::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const Tensor& sum = saved.sum;
  Backend& backend = backend_for(sum.device());
  const bool wide_gradient = !wide && dy.normed.defined();  // it has the type of the branch, or f32
  const TensorOptions branch{wide_gradient ? dy.normed.dtype() : saved.branch_type.dtype(), sum.device()};
  In result;
  if (!dy.normed.defined()) {
    result.x = dy.sum;
    if (needs[1] && p > 0.0) {
      result.branch = Tensor::empty(sum.shape(), branch);
      backend.random().dropout(dy.sum, key, p, result.branch);
    } else if (needs[1]) {
      result.branch = dy.sum;
    }
    return result;
  }
  const bool over_dsum = needs.may_overwrite(dy.sum) && dy.sum.dtype() == sum.dtype();
  result.x = over_dsum ? dy.sum.detach() : Tensor::empty(sum.shape(), sum.options());
  const bool one_gradient = p == 0.0 && branch.dtype == sum.dtype();
  if (needs[1]) result.branch = one_gradient ? result.x : Tensor::empty(sum.shape(), branch);
  if (needs[2]) result.gamma = Tensor::empty(saved.gamma.shape(), saved.rstd.options());
  if (needs[3]) result.beta = Tensor::empty({sum.size(-1)}, saved.rstd.options());
  backend.norm().residual_norm_backward({.norm = {.x = sum,
                                                  .gamma = saved.gamma,
                                                  .mean = saved.mean,
                                                  .rstd = saved.rstd,
                                                  .dy = dy.normed,
                                                  .dx = result.x,
                                                  .dgamma = result.gamma,
                                                  .dbeta = result.beta},
                                         .dsum = dy.sum,
                                         .dbranch = one_gradient ? Tensor() : result.branch,
                                         .key = key,
                                         .p = p});
  if (!needs[0]) result.x = {};
  return result;
}

ResidualNormResult ResidualNorm::composed(const ResidualNorm& op, const In& in) {
  const Tensor branch = op.p > 0.0 ? apply(Dropout{op.key, op.p}, {in.branch}).y : in.branch;
  const Tensor sum = cast(add(in.x, branch), sum_type(in.x, in.branch.dtype()));
  const Tensor x = cast(sum, wide_of(promote(in.x.dtype(), in.branch.dtype())));
  const Tensor normal = op.rms ? scaled_to_one(x, {-1}, op.eps) : normalised(x, {-1}, op.eps);
  return {sum, scale_and_shift(normal, in.gamma, in.beta, op.wide ? sum.dtype() : in.branch.dtype())};
}

Result GroupNorm::forward(Context& context, Saved& saved, const In& in) const {
  const Shape statistics{in.x.size(0), groups};
  saved.mean = context.empty(statistics, wide_of(in.x.dtype()));
  saved.rstd = context.empty(statistics, wide_of(in.x.dtype()));
  RowNormForward args = forward_arguments(context, saved, in, *this, context.dtype);
  args.groups = groups;
  context.backend.norm().group_norm(args);
  return {args.y};
}

RowNormTensors::In GroupNorm::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  RowNormBackward args = backward_arguments(*this, saved, dy.y, needs);
  args.groups = groups;
  backend_for(dy.y.device()).norm().group_norm_backward(args);
  return {args.dx, args.dgamma, args.dbeta};
}

Result GroupNorm::composed(const GroupNorm& op, const In& in) {
  const Index channels = in.x.size(-1), samples = in.x.size(0);
  const Index points = in.x.numel() / std::max<Index>(1, samples * channels);
  const Tensor x =
      reshape(cast(in.x, wide_of(in.x.dtype())), Shape{samples, points, op.groups, channels / op.groups});
  const Tensor normal = reshape(normalised(x, {1, 3}, op.eps), in.x.shape());
  return {scale_and_shift(normal, in.gamma, in.beta, in.x.dtype())};
}

}  // namespace ops

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int axes, double eps,
                  NormResult result) {
  ops::check_x(ops::LayerNorm::info, x, 1);
  require(axes >= 1 && axes <= x.rank(), "layer_norm", "{} has no last {} axes", to_string(x), axes);
  ops::LayerNorm op;
  op.eps = eps;
  op.result = result;
  op.axes = axes;
  for (int i = 0; i < axes; ++i)
    op.parameter_shape = op.parameter_shape.inserted(i, x.shape()[x.rank() - axes + i]);
  ops::check_parameter(ops::LayerNorm::info, gamma, op.parameter_shape, "gamma");
  ops::check_parameter(ops::LayerNorm::info, beta, op.parameter_shape, "beta");
  return apply(op, {x, gamma, beta}).y;
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps, NormResult result) {
  ops::check_x(ops::RmsNorm::info, x, 1);
  ops::RmsNorm op;
  op.eps = eps;
  op.result = result;
  op.parameter_shape = Shape{x.size(-1)};
  ops::check_parameter(ops::RmsNorm::info, gamma, op.parameter_shape, "gamma");
  return apply(op, {x, gamma, {}}).y;
}

ResidualNormResult residual_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                 const Tensor& beta, const ResidualNormOptions& options) {
  const OpInfo& info = ops::ResidualNorm::info;
  ops::check_x(info, x, 1);
  require(branch.defined() && branch.shape() == x.shape() && is_floating(branch.dtype()), info.name,
          "branch must be floating and like x {}, got {}", to_string(x), to_string(branch));
  ops::check_parameter(info, gamma, Shape{x.size(-1)}, "gamma");
  ops::check_parameter(info, beta, Shape{x.size(-1)}, "beta");
  require(!options.rms || !beta.defined(), info.name,
          "RMS norm has no beta, got {}; leave it out, or use layer norm", to_string(beta));
  ops::require_dropout(info.name, options.dropout);
  ops::ResidualNorm op;
  op.eps = options.eps;
  op.rms = options.rms;
  op.wide = options.wide;
  if (options.training && options.dropout > 0.0) {
    op.key = next_random_key(RandomPurpose::dropout);
    op.p = options.dropout;
  }
  return apply(op, {x, branch, gamma, beta});
}

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps) {
  ops::check_x(ops::GroupNorm::info, x, 2);
  require(groups >= 1 && x.size(-1) % groups == 0, "group_norm",
          "{} groups do not divide the {} channels of {}", groups, x.size(-1), to_string(x));
  ops::GroupNorm op;
  op.eps = eps;
  op.groups = groups;
  op.parameter_shape = Shape{x.size(-1)};
  ops::check_parameter(ops::GroupNorm::info, gamma, op.parameter_shape, "gamma");
  ops::check_parameter(ops::GroupNorm::info, beta, op.parameter_shape, "beta");
  return apply(op, {x, gamma, beta}).y;
}

}  // namespace tandem
