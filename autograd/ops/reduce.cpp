#include "autograd/ops/reduce.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/reduce.h"

namespace tandem {

namespace ops {

Shape ReduceGeometry::kept_shape() const {
  Shape shape = x_shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes >> axis & 1u) shape = shape.with(axis, 1);
  }
  return shape;
}

Shape ReduceGeometry::result_shape() const {
  if (keep_axes) return kept_shape();
  Shape shape = x_shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (axes >> axis & 1u) shape = shape.without(axis);
  }
  return shape;
}

Index ReduceGeometry::count() const {
  Index count = 1;
  for (int axis = 0; axis < x_shape.rank(); ++axis) {
    if (axes >> axis & 1u) count *= x_shape[axis];
  }
  return count;
}

namespace {

Tensor reduced(Context& context, Reduction reduction, const ReduceGeometry& g, const Tensor& x, DType dtype) {
  Tensor y = context.empty(g.result_shape(), dtype);
  context.backend.reduce().reduce(reduction, x, g.axes, y);
  return y;
}

void require_floating(const OpInfo& info, const Tensor& x) {
  require(is_floating(x.dtype()), info.name, "has no meaning for {}; cast to f32 first", name_of(x.dtype()));
}

void require_elements(const OpInfo& info, const ReduceGeometry& g) {
  require(g.count() > 0, info.name, "an empty range of {} has no extremum", to_string(g.x_shape));
}

Tensor kept_view(const Tensor& t, const ReduceGeometry& g) { return t.viewed(g.kept_shape()); }
Tensor kept_taped(const Tensor& t, const ReduceGeometry& g) { return reshape(t, g.kept_shape()); }
// Expands dy to x's shape, taped.
Tensor spread(const Tensor& dy, const ReduceGeometry& g) {
  return broadcast_to(kept_taped(dy, g), g.x_shape);
}

// dx = formula(operands), broadcast to x's shape.
template <class F>
Tensor gradient(std::initializer_list<Tensor> operands, const Scalars& scalars, const ReduceGeometry& g,
                const Needs& needs) {
  const GradOutput* sink = needs.sink(0);
  const Tensor dx = sink ? sink->tensor : Tensor::empty(g.x_shape, {g.x_dtype, operands.begin()->device()});
  backend_for(dx.device())
      .elementwise()
      .pointwise(formula_id<F>(), scalars, {operands.begin(), operands.size()}, dx, sink && sink->accumulate);
  return dx;
}

Tensor untaped_sum(const Tensor& x, const ReduceGeometry& g) {
  const Tensor y = Tensor::empty(g.kept_shape(), {wide_of(x.dtype()), x.device()});
  backend_for(x.device()).reduce().reduce(Reduction::sum, x, g.axes, y);
  return y;
}

// 1/k at each of the k elements of a range that equal its extremum y (kept shape), 0 elsewhere.
Tensor shares(const Tensor& x, const Tensor& y, const ReduceGeometry& g) {
  const Tensor operands[] = {x, y};
  const Tensor mask = pointwise_plain(formula_id<formulas::IsExtremum>(), {}, operands);
  const Tensor count = untaped_sum(mask, g);
  const Tensor quotient[] = {count, mask};
  backend_for(x.device()).elementwise().pointwise(formula_id<formulas::Quotient>(), {}, quotient, mask);
  return mask;
}

template <class Op>
Tensor reducing(const Tensor& x, const Axes& axes, bool keep_axes, Op op = {}) {
  require(x.defined(), Op::info.name, "the input is absent");
  op.geometry.x_shape = x.shape();
  op.geometry.x_dtype = x.dtype();
  op.geometry.keep_axes = keep_axes;
  if (axes.empty()) op.geometry.axes = (1u << x.rank()) - 1u;
  for (int given : axes) {
    const int axis = normalized_axis(given, x.rank(), Op::info.name);
    require((op.geometry.axes >> axis & 1u) == 0, Op::info.name, "axis {} is named twice", axis);
    op.geometry.axes |= 1u << axis;
  }
  return apply(op, {x}).y;
}

DType sum_dtype(const Context& context, const Tensor& x) {
  return is_integral(x.dtype()) ? DType::i64 : context.dtype;
}

}  // namespace

Result Sum::forward(Context& context, Nothing&, const In& in) const {
  return {reduced(context, Reduction::sum, geometry, in.x, sum_dtype(context, in.x))};
}
Operand Sum::backward(const Nothing&, const Out& dy, const Needs& needs) const {
  if (needs.create_graph()) return {spread(dy.y, geometry)};
  return {gradient<formulas::Identity>({kept_view(dy.y, geometry)}, {}, geometry, needs)};
}

Result Mean::forward(Context& context, Nothing&, const In& in) const {
  require_floating(info, in.x);
  return {reduced(context, Reduction::mean, geometry, in.x, context.dtype)};
}
Operand Mean::backward(const Nothing&, const Out& dy, const Needs& needs) const {
  const auto count = static_cast<double>(geometry.count());
  if (needs.create_graph()) return {spread(div(dy.y, count), geometry)};
  return {gradient<formulas::DivScalar>({kept_view(dy.y, geometry)}, {count}, geometry, needs)};
}

Result Var::forward(Context& context, Saved& saved, const In& in) const {
  require_floating(info, in.x);
  const auto count = static_cast<double>(geometry.count());
  require(count > correction, info.name, "{} values need a correction below their number, got {}",
          geometry.count(), correction);
  const DType wide = wide_of(in.x.dtype());
  saved.x = in.x;
  saved.mean = context.empty(geometry.kept_shape(), wide);
  context.backend.reduce().reduce(Reduction::mean, in.x, geometry.axes, saved.mean);
  const Tensor deviation = context.empty(geometry.x_shape, wide);
  const Tensor operands[] = {in.x, saved.mean};
  context.backend.elementwise().pointwise(formula_id<formulas::SquaredDifference>(), {}, operands, deviation);
  const Tensor total = context.empty(geometry.result_shape(), wide);
  context.backend.reduce().reduce(Reduction::sum, deviation, geometry.axes, total);
  Out out{context.empty(geometry.result_shape())};
  context.backend.elementwise().pointwise(formula_id<formulas::DivScalar>(), {count - correction},
                                          {&total, 1}, out.y);
  return out;
}
Operand Var::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const double factor = 2.0 / (static_cast<double>(geometry.count()) - correction);
  if (!needs.create_graph())
    return {gradient<formulas::VarGradient>({saved.x, saved.mean, kept_view(dy.y, geometry)}, {factor},
                                            geometry, needs)};
  Mean mean_op;
  mean_op.geometry = geometry;
  mean_op.geometry.keep_axes = true;
  const Tensor centred = sub(saved.x, apply(mean_op, {saved.x}).y);
  return {mul(mul(centred, factor), kept_taped(dy.y, geometry))};
}

Result Prod::forward(Context& context, Saved& saved, const In& in) const {
  saved = {in.x, reduced(context, Reduction::prod, geometry, in.x, sum_dtype(context, in.x))};
  return {saved.y};
}

namespace {

// Leave-one-out products as products over an extra axis: correct to any order, also with zeros.
Tensor prod_gradient_taped(const Tensor& x, const Tensor& dy, const ReduceGeometry& g) {
  std::vector<int> order, back(static_cast<std::size_t>(x.rank()));
  for (const bool is_reduced : {false, true}) {
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (((g.axes >> axis & 1u) != 0) == is_reduced) order.push_back(axis);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  const Index extent = g.count(), outer = extent == 0 ? 0 : x.numel() / extent;
  const Tensor moved = permute(x, order);
  const Tensor rows = broadcast_to(reshape(moved, Shape{outer, 1, extent}), Shape{outer, extent, extent});
  const Tensor identity = Tensor::zeros(Shape{extent, extent}, x.options());
  const Tensor diagonal = identity.viewed(Shape{extent * extent});
  for (Index i = 0; i < extent; ++i) backend_for(x.device()).fill(diagonal.rows(i * (extent + 1), 1), 1.0);
  const Tensor one = Tensor::scalar(1.0, x.options());
  const Tensor others = prod(where(identity, one, rows), {2});
  const Tensor spread_back = permute(reshape(others, moved.shape()), back);
  return mul(spread_back, kept_taped(dy, g));
}

}  // namespace

Operand Prod::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const Tensor x = saved.x.detach();
  const Tensor zero = equal(x, Tensor::scalar(0.0, x.options()));
  if (needs.create_graph()) {
    if (sum(zero).item() > 0.0) return {prod_gradient_taped(saved.x, dy.y, geometry)};
    return {div(mul(kept_taped(dy.y, geometry), kept_taped(saved.y, geometry)), saved.x)};
  }
  // With one zero in a range only that element has a gradient, the product of the rest; with more zeros no
  // element has one.
  const TensorOptions wide = {wide_of(x.dtype()), x.device()};
  const Tensor others = where(zero, Tensor::scalar(1.0, x.options()), x);
  const Tensor product = Tensor::empty(geometry.kept_shape(), wide);
  backend_for(x.device()).reduce().reduce(Reduction::prod, others, geometry.axes, product);
  const Tensor zeros = untaped_sum(zero, geometry);
  const Tensor none = Tensor::scalar(0.0, wide);
  const Tensor if_zero = where(less_equal(zeros, Tensor::scalar(1.0, wide)), product, none);
  const Tensor if_not = where(zeros, none, product);
  const Tensor factor = where(zero, if_zero, div(if_not, others));
  return {gradient<formulas::Mul>({factor, kept_view(dy.y, geometry)}, {}, geometry, needs)};
}

template <bool kMax>
Result Extremum<kMax>::forward(Context& context, Saved& saved, const In& in) const {
  require_elements(info, geometry);
  saved = {in.x, reduced(context, kMax ? Reduction::max : Reduction::min, geometry, in.x, context.dtype)};
  return {saved.y};
}
template <bool kMax>
Operand Extremum<kMax>::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const Tensor share = shares(saved.x.detach(), kept_view(saved.y, geometry), geometry);
  if (needs.create_graph()) return {mul(spread(dy.y, geometry), share)};
  return {gradient<formulas::KeepShare>({share, kept_view(dy.y, geometry)}, {}, geometry, needs)};
}
template struct Extremum<true>;
template struct Extremum<false>;

Result LogSumExp::forward(Context& context, Saved& saved, const In& in) const {
  require_floating(info, in.x);
  saved = {in.x, reduced(context, Reduction::logsumexp, geometry, in.x, context.dtype)};
  return {saved.y};
}
Operand LogSumExp::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  if (needs.create_graph())
    return {mul(kept_taped(dy.y, geometry), exp(sub(saved.x, kept_taped(saved.y, geometry))))};
  return {gradient<formulas::LogSumExpGradient>(
      {saved.x, kept_view(saved.y, geometry), kept_view(dy.y, geometry)}, {}, geometry, needs)};
}

Result Norm::forward(Context& context, Saved& saved, const In& in) const {
  require_floating(info, in.x);
  const Reduction reduction = order == NormOrder::one   ? Reduction::sum_of_abs
                              : order == NormOrder::two ? Reduction::sum_of_squares
                                                        : Reduction::max_abs;
  // The sum of squares of 16-bit numbers can overflow even if the norm does not.
  const bool widen = order == NormOrder::two && is_16bit(context.dtype);
  Out out{reduced(context, reduction, geometry, in.x, widen ? DType::f32 : context.dtype)};
  if (order == NormOrder::two) {
    const Tensor squares = out.y;
    if (widen) out.y = context.empty(squares.shape());
    context.backend.elementwise().pointwise(formula_id<formulas::Sqrt>(), {}, {&squares, 1}, out.y);
  }
  saved = {in.x, out.y};
  return out;
}
Operand Norm::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  const auto absolute = [&] { return pointwise_plain(formula_id<formulas::Abs>(), {}, {&saved.x, 1}); };
  if (needs.create_graph()) {
    const Tensor taped_dy = kept_taped(dy.y, geometry);
    if (order == NormOrder::two) {
      const Tensor y = kept_taped(saved.y, geometry);
      const Tensor origin = equal(y.detach(), Tensor::scalar(0.0, y.options()));
      return {mul(taped_dy, div(saved.x, where(origin, Tensor::scalar(1.0, y.options()), y)))};
    }
    const Tensor direction = sign(saved.x.detach());
    if (order == NormOrder::one) return {mul(taped_dy, direction)};
    return {mul(taped_dy, mul(shares(absolute(), kept_view(saved.y, geometry), geometry), direction))};
  }
  const Tensor dy_view = kept_view(dy.y, geometry);
  if (order == NormOrder::two)
    return {gradient<formulas::NormGradient>({saved.x, kept_view(saved.y, geometry), dy_view}, {}, geometry,
                                             needs)};
  if (order == NormOrder::one)
    return {gradient<formulas::GradientOf<formulas::Abs>>({saved.x, dy_view}, {}, geometry, needs)};
  const Tensor operands[] = {shares(absolute(), kept_view(saved.y, geometry), geometry), dy_view};
  const Tensor share = pointwise_plain(formula_id<formulas::KeepShare>(), {}, operands);
  return {gradient<formulas::GradientOf<formulas::Abs>>({saved.x, share}, {}, geometry, needs)};
}

template <bool kMax>
Result ArgExtremum<kMax>::forward(Context& context, Nothing&, const In& in) const {
  require_elements(info, geometry);
  return {reduced(context, kMax ? Reduction::argmax : Reduction::argmin, geometry, in.x, DType::i64)};
}

Result CumSum::forward(Context& context, Nothing&, const Operand& in) const {
  Result out{context.empty(in.x.shape(), sum_dtype(context, in.x))};
  context.backend.reduce().cumsum(in.x, axis, reverse, out.y);
  return out;
}
Operand CumSum::backward(const Nothing&, const Result& dy, const Needs&) const {
  CumSum op;
  op.axis = axis;
  op.reverse = !reverse;
  return {apply(op, {dy.y}).y};
}

}  // namespace ops

Tensor sum(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::Sum>(x, axes, keep_axes);
}
Tensor mean(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::Mean>(x, axes, keep_axes);
}
Tensor var(const Tensor& x, const Axes& axes, double correction, bool keep_axes) {
  ops::Var op;
  op.correction = correction;
  return ops::reducing(x, axes, keep_axes, op);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::Prod>(x, axes, keep_axes);
}
Tensor max(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::Max>(x, axes, keep_axes);
}
Tensor min(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::Min>(x, axes, keep_axes);
}
Tensor argmax(const Tensor& x, int axis, bool keep_axis) {
  return ops::reducing<ops::ArgMax>(x, {axis}, keep_axis);
}
Tensor argmin(const Tensor& x, int axis, bool keep_axis) {
  return ops::reducing<ops::ArgMin>(x, {axis}, keep_axis);
}
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep_axes) {
  return ops::reducing<ops::LogSumExp>(x, axes, keep_axes);
}

Tensor cumsum(const Tensor& x, int axis) {
  require(x.defined(), "cumsum", "the input is absent");
  ops::CumSum op;
  op.axis = normalized_axis(axis, x.rank(), "cumsum");
  return apply(op, {x}).y;
}

Tensor norm(const Tensor& x, NormOrder order, const Axes& axes, bool keep_axes) {
  ops::Norm op;
  op.order = order;
  return ops::reducing(x, axes, keep_axes, op);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require(broadcast(x.shape(), shape, "sum_to") == x.shape(), "sum_to", "{} is not a broadcast of {}",
          to_string(x.shape()), to_string(shape));
  const int lead = x.rank() - shape.rank();
  Axes axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < lead || (shape[axis - lead] == 1 && x.shape()[axis] != 1)) axes.push_back(axis);
  }
  return reshape(axes.empty() ? x : sum(x, axes), shape);
}

OpInfos reduce_ops() {
  return infos_of<ops::Sum, ops::Mean, ops::Var, ops::Prod, ops::Max, ops::Min, ops::LogSumExp, ops::Norm,
                  ops::ArgMax, ops::ArgMin, ops::CumSum>();
}

}  // namespace tandem
