#include "autograd/ops/elementwise.h"

#include <cmath>
#include <numbers>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/reduce.h"

namespace tandem {

namespace ops {

namespace {

constexpr double kGeluScale = 1.59576912160573071176;  // 2·√(2/π)

// Axes of `full` that broadcasting added to or expanded from `shape`.
std::uint32_t broadcast_axes(const Shape& full, const Shape& shape) {
  const int lead = full.rank() - shape.rank();
  std::uint32_t axes = (1u << lead) - 1u;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1 && full[axis + lead] != 1) axes |= 1u << (axis + lead);
  }
  return axes;
}

void check_operands(const PointwiseCall& call) {
  bool all_integral = true;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    require(call.operands[i].defined(), call.info.name, "operand {} is absent", i);
    all_integral &= is_integral(call.operands[i].dtype());
  }
  if (!all_integral) return;
  require(call.integral, call.info.name, "has no meaning for {}; cast to f32 first",
          name_of(call.operands[0].dtype()));
  for (double scalar : call.scalars) {
    require(std::isinf(scalar) || std::trunc(scalar) == scalar, call.info.name,
            "{} is not an integer, the tensor holds {}; cast to f32 first", scalar,
            name_of(call.operands[0].dtype()));
  }
}

}  // namespace

Tensor pointwise_forward(Context& context, const PointwiseCall& call) {
  return pointwise_forward(context, call, context.dtype);
}

Tensor pointwise_forward(Context& context, const PointwiseCall& call, DType dtype) {
  check_operands(call);
  Shape shape = call.operands[0].shape();
  for (const Tensor& operand : call.operands.subspan(1)) {
    if (operand.shape() != shape) shape = broadcast(shape, operand.shape(), call.info.name);
  }
  Tensor y = context.empty(shape, dtype);
  context.backend.elementwise().pointwise(call.formula, call.scalars, call.operands, y);
  return y;
}

Tensor broadcast_gradient(const Tensor& full, const Shape& shape, const Needs& needs, std::size_t input) {
  if (full.shape() == shape) return full;
  if (needs.create_graph()) return sum_to(full, shape);
  const GradOutput* sink = needs.sink(input);
  const Tensor y = sink ? sink->tensor : Tensor::empty(shape, full.options());
  backend_for(full.device())
      .reduce()
      .reduce(Reduction::sum, full, broadcast_axes(full.shape(), shape), y, sink && sink->accumulate);
  return y;
}

Tensor pointwise_gradient(const GradientCall& call, const Shape& shape, const Needs& needs,
                          std::size_t input) {
  const Tensor& dy = call.operands.back();
  Backend& backend = backend_for(dy.device());
  if (dy.shape() == shape) {
    if (const GradOutput* sink = needs.sink(input)) {
      backend.elementwise().pointwise(call.formula, call.scalars, call.operands, sink->tensor,
                                      sink->accumulate);
      return sink->tensor;
    }
  }
  // A sum over broadcast axes is rounded only once, after the sum.
  const bool widen = is_16bit(dy.dtype()) && dy.shape() != shape;
  const Tensor full = call.overwrite && !widen
                          ? dy.detach()
                          : Tensor::empty(dy.shape(), {widen ? DType::f32 : dy.dtype(), dy.device()});
  backend.elementwise().pointwise(call.formula, call.scalars, call.operands, full);
  return broadcast_gradient(full, shape, needs, input);
}

Tensor pointwise_plain(FormulaId formula, const Scalars& scalars, std::span<const Tensor> operands) {
  Shape shape = operands[0].shape();
  DType dtype = operands[0].dtype();
  for (const Tensor& operand : operands.subspan(1)) {
    shape = broadcast(shape, operand.shape(), "pointwise");
    dtype = promote(dtype, operand.dtype());
  }
  const Tensor y = Tensor::empty(shape, {dtype, operands[0].device()});
  backend_for(y.device()).elementwise().pointwise(formula, scalars, operands, y);
  return y;
}

Tensor Neg::linear(const Scalars&, const Tensor& dy) { return neg(dy); }
Tensor Sign::linear(const Scalars&, const Tensor&) { return {}; }
Tensor AddScalar::linear(const Scalars&, const Tensor& dy) { return dy; }
Tensor MulScalar::linear(const Scalars& c, const Tensor& dy) { return mul(dy, c[0]); }
Tensor DivScalar::linear(const Scalars& c, const Tensor& dy) { return div(dy, c[0]); }
Tensor ScalarSub::linear(const Scalars&, const Tensor& dy) { return neg(dy); }

Tensor Square::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return mul(dy, mul(s, 2.0)); }
Tensor Sqrt::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return div(mul(dy, 0.5), s); }
Tensor Rsqrt::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  return mul(dy, mul(mul(square(s), s), -0.5));
}
Tensor Reciprocal::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  return neg(mul(dy, square(s)));
}
Tensor Exp::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return mul(dy, s); }
Tensor Expm1::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return mul(dy, add(s, 1.0)); }
Tensor Log::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return div(dy, s); }
Tensor Log1p::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return div(dy, add(s, 1.0)); }
Tensor Sin::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return mul(dy, cos(s)); }
Tensor Cos::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return neg(mul(dy, sin(s))); }
Tensor Tanh::taped(const Scalars&, const Tensor& s, const Tensor& dy) { return mul(dy, sub(1.0, mul(s, s))); }
Tensor Sigmoid::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  return mul(dy, mul(s, sub(1.0, s)));
}
Tensor Erf::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  return mul(dy, mul(exp(neg(mul(s, s))), 2.0 * std::numbers::inv_sqrtpi));
}

Tensor Elu::taped(const Scalars& c, const Tensor& s, const Tensor& dy) {
  const Tensor positive = pointwise_plain(formula_id<formulas::DerivativeOf<formulas::Relu>>(), {}, {&s, 1});
  const Tensor below = mul(exp(clamp(s, -HUGE_VAL, 0.0)), c[0]);
  return mul(dy, add(positive, mul(sub(1.0, positive), below)));
}

Tensor Gelu::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  const Tensor distribution = mul(add(erf(mul(s, 1.0 / std::numbers::sqrt2)), 1.0), 0.5);
  const Tensor density = mul(exp(mul(mul(s, s), -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return mul(dy, add(distribution, mul(s, density)));
}

Tensor GeluTanh::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  const Tensor s2 = mul(s, s);
  const Tensor g = sigmoid(mul(mul(s, add(mul(s2, 0.044715), 1.0)), kGeluScale));
  const Tensor inner = mul(add(mul(s2, 0.134145), 1.0), kGeluScale);
  return mul(dy, add(g, mul(mul(s, inner), mul(g, sub(1.0, g)))));
}

Tensor Silu::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  const Tensor g = sigmoid(s);
  return mul(dy, mul(g, add(mul(s, sub(1.0, g)), 1.0)));
}

Tensor Softplus::taped(const Scalars& c, const Tensor& s, const Tensor& dy) {
  const Tensor scaled = mul(s, c[0]);
  const Tensor linear = greater(scaled, Tensor::scalar(c[1], s.options()));
  return mul(dy, where(linear, Tensor::scalar(1.0, s.options()), sigmoid(scaled)));
}

Tensor Hardswish::taped(const Scalars&, const Tensor& s, const Tensor& dy) {
  const auto constant = [&](double value) { return Tensor::scalar(value, s.options()); };
  const Tensor middle = add(div(s, 3.0), 0.5);
  const Tensor upper = where(greater(s, constant(3.0)), constant(1.0), middle);
  return mul(dy, where(less(s, constant(-3.0)), constant(0.0), upper));
}

Tensor ScalarDiv::taped(const Scalars& c, const Tensor& s, const Tensor& dy) {
  return div(mul(dy, -c[0]), mul(s, s));
}

Tensor PowScalar::taped(const Scalars& c, const Tensor& s, const Tensor& dy) {
  if (c[0] == 0.0) return {};
  return mul(dy, mul(pow(s, c[0] - 1.0), c[0]));
}

Result Cast::forward(Context& context, Nothing&, const In& in) const {
  const GradOutput target = context.destination(in.x.shape(), to);
  context.backend.cast(in.x, target.tensor, target.accumulate);
  return {target.tensor};
}

Operand Cast::backward(const Nothing&, const Out& dy, const Needs& needs) const {
  if (needs.create_graph()) return {cast(dy.y, from)};
  const GradOutput* sink = needs.sink(0);
  const Tensor dx = sink ? sink->tensor : Tensor::empty(dy.y.shape(), {from, dy.y.device()});
  backend_for(dx.device()).cast(dy.y, dx, sink && sink->accumulate);
  return {dx};
}

namespace {

template <class Op, class F>
Tensor binary_forward(Context& context, const Binary::In& in) {
  const Tensor operands[] = {in.a, in.b};
  return pointwise_forward(context, {Op::info, formula_id<F>(), F::kIntegral, Scalars{}, operands});
}

// Runs a gradient kernel on one or two saved operands and dy.
template <class F>
Tensor gradient(std::initializer_list<Tensor> operands, bool overwrite, const Shape& shape,
                const Needs& needs, std::size_t input) {
  return pointwise_gradient({formula_id<F>(), Scalars{}, {operands.begin(), operands.size()}, overwrite},
                            shape, needs, input);
}

}  // namespace

Result Add::forward(Context& context, Saved&, const In& in) const {
  return {binary_forward<Add, formulas::Add>(context, in)};
}
Binary::In Add::backward(const Saved&, const Out& dy, const Needs& needs) const {
  return {needs[0] ? broadcast_gradient(dy.y, a_shape, needs, 0) : Tensor{},
          needs[1] ? broadcast_gradient(dy.y, b_shape, needs, 1) : Tensor{}};
}

Result Sub::forward(Context& context, Saved&, const In& in) const {
  return {binary_forward<Sub, formulas::Sub>(context, in)};
}
Binary::In Sub::backward(const Saved&, const Out& dy, const Needs& needs) const {
  In dx;
  if (needs[0]) dx.a = broadcast_gradient(dy.y, a_shape, needs, 0);
  if (needs[1]) {
    dx.b = needs.create_graph()
               ? sum_to(neg(dy.y), b_shape)
               : gradient<formulas::Neg>({dy.y}, needs.may_overwrite(dy.y), b_shape, needs, 1);
  }
  return dx;
}

Result Mul::forward(Context& context, Saved& saved, const In& in) const {
  if (in.b.requires_grad()) saved.a = in.a;
  if (in.a.requires_grad()) saved.b = in.b;
  return {binary_forward<Mul, formulas::Mul>(context, in)};
}
Binary::In Mul::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    if (needs[0]) dx.a = sum_to(mul(dy.y, saved.b), a_shape);
    if (needs[1]) dx.b = sum_to(mul(dy.y, saved.a), b_shape);
    return dx;
  }
  if (needs[0]) {
    const bool overwrite = !needs[1] && needs.may_overwrite(dy.y);
    dx.a = gradient<formulas::Mul>({saved.b, dy.y}, overwrite, a_shape, needs, 0);
  }
  if (needs[1]) dx.b = gradient<formulas::Mul>({saved.a, dy.y}, needs.may_overwrite(dy.y), b_shape, needs, 1);
  return dx;
}

Result Div::forward(Context& context, Saved& saved, const In& in) const {
  if (in.b.requires_grad()) saved.a = in.a;
  saved.b = in.b;
  return {binary_forward<Div, formulas::Div>(context, in)};
}
Binary::In Div::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    if (needs[0]) dx.a = sum_to(div(dy.y, saved.b), a_shape);
    if (needs[1]) dx.b = sum_to(neg(mul(dy.y, div(saved.a, mul(saved.b, saved.b)))), b_shape);
    return dx;
  }
  if (needs[1]) dx.b = gradient<formulas::DivGradient>({saved.a, saved.b, dy.y}, false, b_shape, needs, 1);
  if (needs[0])
    dx.a = gradient<formulas::Quotient>({saved.b, dy.y}, needs.may_overwrite(dy.y), a_shape, needs, 0);
  return dx;
}

Result Pow::forward(Context& context, Saved& saved, const In& in) const {
  saved = {in.a, in.b};
  return {binary_forward<Pow, formulas::Pow>(context, in)};
}
Binary::In Pow::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    if (needs[0]) dx.a = sum_to(mul(dy.y, mul(saved.b, pow(saved.a, sub(saved.b, 1.0)))), a_shape);
    if (needs[1]) dx.b = sum_to(mul(dy.y, mul(pow(saved.a, saved.b), log(saved.a))), b_shape);
    return dx;
  }
  if (needs[0])
    dx.a = gradient<formulas::PowGradientBase>({saved.a, saved.b, dy.y}, false, a_shape, needs, 0);
  if (needs[1])
    dx.b = gradient<formulas::PowGradientExponent>({saved.a, saved.b, dy.y}, false, b_shape, needs, 1);
  return dx;
}

namespace {

// Share: the first operand's part of dy.
template <class Share, class Gradient>
Binary::In extremum_backward(const Binary& op, const Binary::Saved& saved, const Tensor& dy,
                             const Needs& needs) {
  Binary::In dx;
  const auto one = [&](const Tensor& self, const Tensor& other, const Shape& shape, std::size_t input) {
    if (!needs.create_graph()) return gradient<Gradient>({self, other, dy}, false, shape, needs, input);
    const Tensor operands[] = {self, other};
    return sum_to(mul(dy, pointwise_plain(formula_id<Share>(), {}, operands)), shape);
  };
  if (needs[0]) dx.a = one(saved.a, saved.b, op.a_shape, 0);
  if (needs[1]) dx.b = one(saved.b, saved.a, op.b_shape, 1);
  return dx;
}

}  // namespace

Result Maximum::forward(Context& context, Saved& saved, const In& in) const {
  saved = {in.a, in.b};
  return {binary_forward<Maximum, formulas::Maximum>(context, in)};
}
Binary::In Maximum::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  return extremum_backward<formulas::MaximumShare, formulas::MaximumGradient>(*this, saved, dy.y, needs);
}

Result Minimum::forward(Context& context, Saved& saved, const In& in) const {
  saved = {in.a, in.b};
  return {binary_forward<Minimum, formulas::Minimum>(context, in)};
}
Binary::In Minimum::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  return extremum_backward<formulas::MinimumShare, formulas::MinimumGradient>(*this, saved, dy.y, needs);
}

Result Prelu::forward(Context& context, Saved& saved, const In& in) const {
  require(in.b.defined() &&
              (in.b.numel() == 1 || (in.b.rank() == 1 && in.a.rank() > 0 && in.b.size(0) == in.a.size(-1))),
          info.name, "slope must have one element or one for each channel of {}, got {}", to_string(in.a),
          to_string(in.b));
  saved = {in.a, in.b};
  return {binary_forward<Prelu, formulas::Prelu>(context, in)};
}
Binary::In Prelu::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    const Tensor positive =
        pointwise_plain(formula_id<formulas::DerivativeOf<formulas::Relu>>(), {}, {&saved.a, 1});
    const Tensor rest = sub(1.0, positive);
    if (needs[0]) dx.a = mul(dy.y, add(positive, mul(rest, saved.b)));
    if (needs[1]) dx.b = sum_to(mul(dy.y, mul(rest, saved.a)), b_shape);
    return dx;
  }
  if (needs[1]) dx.b = gradient<formulas::PreluSlopeGradient>({saved.a, dy.y}, false, b_shape, needs, 1);
  if (needs[0])
    dx.a = gradient<formulas::PreluGradient>({saved.a, saved.b, dy.y}, needs.may_overwrite(dy.y), a_shape,
                                             needs, 0);
  return dx;
}

Result LerpScalar::forward(Context& context, Nothing&, const In& in) const {
  const Tensor operands[] = {in.a, in.b};
  return {pointwise_forward(context,
                            {info, formula_id<formulas::LerpScalar>(), false, Scalars{weight}, operands})};
}
Binary::In LerpScalar::backward(const Nothing&, const Out& dy, const Needs& needs) const {
  return {needs[0] ? broadcast_gradient(mul(dy.y, 1.0 - weight), a_shape, needs, 0) : Tensor{},
          needs[1] ? broadcast_gradient(mul(dy.y, weight), b_shape, needs, 1) : Tensor{}};
}

Result Lerp::forward(Context& context, Saved& saved, const In& in) const {
  if (in.weight.requires_grad()) saved = {in.from, in.to, in.weight};
  saved.weight = in.weight;
  const Tensor operands[] = {in.from, in.to, in.weight};
  return {pointwise_forward(context, {info, formula_id<formulas::Lerp>(), false, Scalars{}, operands})};
}

Lerp::In Lerp::backward(const Saved& saved, const Result& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    if (needs[0]) dx.from = sum_to(mul(dy.y, sub(1.0, saved.weight)), from_shape);
    if (needs[1]) dx.to = sum_to(mul(dy.y, saved.weight), to_shape);
    if (needs[2]) dx.weight = sum_to(mul(dy.y, sub(saved.to, saved.from)), weight_shape);
    return dx;
  }
  if (needs[0])
    dx.from = gradient<formulas::MulComplement>({saved.weight, dy.y}, false, from_shape, needs, 0);
  if (needs[1]) dx.to = gradient<formulas::Mul>({saved.weight, dy.y}, false, to_shape, needs, 1);
  if (needs[2])
    dx.weight =
        gradient<formulas::MulDifference>({saved.from, saved.to, dy.y}, false, weight_shape, needs, 2);
  return dx;
}

Result Where::forward(Context& context, Saved& saved, const In& in) const {
  saved.condition = in.condition;
  const Tensor operands[] = {in.condition, in.a, in.b};
  return {pointwise_forward(context, {info, formula_id<formulas::Where>(), true, Scalars{}, operands})};
}

Where::In Where::backward(const Saved& saved, const Result& dy, const Needs& needs) const {
  In dx;
  if (needs.create_graph()) {
    const Tensor nothing = Tensor::scalar(0.0, dy.y.options());
    if (needs[1]) dx.a = sum_to(where(saved.condition, dy.y, nothing), a_shape);
    if (needs[2]) dx.b = sum_to(where(saved.condition, nothing, dy.y), b_shape);
    return dx;
  }
  if (needs[1]) {
    const bool overwrite = !needs[2] && needs.may_overwrite(dy.y);
    dx.a = gradient<formulas::KeepWhere>({saved.condition, dy.y}, overwrite, a_shape, needs, 1);
  }
  if (needs[2])
    dx.b =
        gradient<formulas::KeepUnless>({saved.condition, dy.y}, needs.may_overwrite(dy.y), b_shape, needs, 2);
  return dx;
}

namespace {

template <class Op>
Tensor unary(const Tensor& x, const Scalars& scalars = {}) {
  Op op;
  op.scalars = scalars;
  return apply(op, {x}).y;
}

template <class Op>
Tensor binary(const Tensor& a, const Tensor& b) {
  Op op;
  op.a_shape = a.shape();
  op.b_shape = b.shape();
  return apply(op, {a, b}).y;
}

template <class Op>
Tensor compare(const Tensor& a, const Tensor& b) {
  return apply(Op{}, {a, b}).y;
}

}  // namespace
}  // namespace ops

Tensor cast(const Tensor& x, DType dtype) {
  require(x.defined(), "cast", "operand 0 is absent");
  if (x.dtype() == dtype) return x;
  ops::Cast op;
  op.from = x.dtype();
  op.to = dtype;
  return apply(op, {x}).y;
}

Tensor add(const Tensor& a, const Tensor& b) { return ops::binary<ops::Add>(a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return ops::binary<ops::Sub>(a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return ops::binary<ops::Mul>(a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return ops::binary<ops::Div>(a, b); }
Tensor pow(const Tensor& base, const Tensor& exponent) { return ops::binary<ops::Pow>(base, exponent); }
Tensor maximum(const Tensor& a, const Tensor& b) { return ops::binary<ops::Maximum>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return ops::binary<ops::Minimum>(a, b); }

Tensor add(const Tensor& a, double b) { return ops::unary<ops::AddScalar>(a, {b}); }
Tensor sub(const Tensor& a, double b) { return ops::unary<ops::AddScalar>(a, {-b}); }
Tensor sub(double a, const Tensor& b) { return ops::unary<ops::ScalarSub>(b, {a}); }
Tensor mul(const Tensor& a, double b) { return ops::unary<ops::MulScalar>(a, {b}); }
Tensor div(const Tensor& a, double b) { return ops::unary<ops::DivScalar>(a, {b}); }
Tensor div(double a, const Tensor& b) { return ops::unary<ops::ScalarDiv>(b, {a}); }
Tensor pow(const Tensor& base, double exponent) {
  if (exponent == 2.0) return square(base);
  return ops::unary<ops::PowScalar>(base, {exponent});
}

Tensor neg(const Tensor& x) { return ops::unary<ops::Neg>(x); }
Tensor abs(const Tensor& x) { return ops::unary<ops::Abs>(x); }
Tensor sign(const Tensor& x) { return ops::unary<ops::Sign>(x); }
Tensor square(const Tensor& x) { return ops::unary<ops::Square>(x); }
Tensor sqrt(const Tensor& x) { return ops::unary<ops::Sqrt>(x); }
Tensor rsqrt(const Tensor& x) { return ops::unary<ops::Rsqrt>(x); }
Tensor reciprocal(const Tensor& x) { return ops::unary<ops::Reciprocal>(x); }
Tensor exp(const Tensor& x) { return ops::unary<ops::Exp>(x); }
Tensor expm1(const Tensor& x) { return ops::unary<ops::Expm1>(x); }
Tensor log(const Tensor& x) { return ops::unary<ops::Log>(x); }
Tensor log1p(const Tensor& x) { return ops::unary<ops::Log1p>(x); }
Tensor sin(const Tensor& x) { return ops::unary<ops::Sin>(x); }
Tensor cos(const Tensor& x) { return ops::unary<ops::Cos>(x); }
Tensor tanh(const Tensor& x) { return ops::unary<ops::Tanh>(x); }
Tensor sigmoid(const Tensor& x) { return ops::unary<ops::Sigmoid>(x); }
Tensor erf(const Tensor& x) { return ops::unary<ops::Erf>(x); }
Tensor relu(const Tensor& x) { return ops::unary<ops::Relu>(x); }
Tensor relu6(const Tensor& x) { return ops::unary<ops::Relu6>(x); }
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return ops::unary<ops::LeakyRelu>(x, {negative_slope});
}
Tensor elu(const Tensor& x, double alpha) { return ops::unary<ops::Elu>(x, {alpha}); }
Tensor gelu(const Tensor& x, GeluForm form) {
  return form == GeluForm::erf ? ops::unary<ops::Gelu>(x) : ops::unary<ops::GeluTanh>(x);
}
Tensor silu(const Tensor& x) { return ops::unary<ops::Silu>(x); }
Tensor softplus(const Tensor& x, double beta, double threshold) {
  require(beta > 0.0, "softplus", "beta must be positive, got {}", beta);
  return ops::unary<ops::Softplus>(x, {beta, threshold});
}
Tensor hardswish(const Tensor& x) { return ops::unary<ops::Hardswish>(x); }
Tensor hardsigmoid(const Tensor& x) { return ops::unary<ops::Hardsigmoid>(x); }
Tensor prelu(const Tensor& x, const Tensor& slope) { return ops::binary<ops::Prelu>(x, slope); }
Tensor clamp(const Tensor& x, double low, double high) {
  require(low <= high, "clamp", "the lower bound {} exceeds the upper bound {}", low, high);
  return ops::unary<ops::Clamp>(x, {low, high});
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  ops::Where op;
  op.a_shape = a.shape();
  op.b_shape = b.shape();
  return apply(op, {condition, a, b}).y;
}

Tensor lerp(const Tensor& from, const Tensor& to, const Tensor& weight) {
  ops::Lerp op;
  op.from_shape = from.shape();
  op.to_shape = to.shape();
  op.weight_shape = weight.shape();
  return apply(op, {from, to, weight}).y;
}

Tensor lerp(const Tensor& from, const Tensor& to, double weight) {
  ops::LerpScalar op;
  op.a_shape = from.shape();
  op.b_shape = to.shape();
  op.weight = weight;
  return apply(op, {from, to}).y;
}

Tensor equal(const Tensor& a, const Tensor& b) { return ops::compare<ops::Equal>(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return ops::compare<ops::NotEqual>(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return ops::compare<ops::Less>(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return ops::compare<ops::LessEqual>(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return ops::compare<ops::Greater>(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return ops::compare<ops::GreaterEqual>(a, b); }

OpInfos elementwise_ops() {
  return infos_of<ops::Neg, ops::Abs, ops::Sign, ops::Square, ops::Sqrt, ops::Rsqrt, ops::Reciprocal,
                  ops::Exp, ops::Expm1, ops::Log, ops::Log1p, ops::Sin, ops::Cos, ops::Tanh, ops::Sigmoid,
                  ops::Erf, ops::Relu, ops::Relu6, ops::LeakyRelu, ops::Elu, ops::Gelu, ops::GeluTanh,
                  ops::Silu, ops::Softplus, ops::Hardswish, ops::Hardsigmoid, ops::Clamp, ops::AddScalar,
                  ops::MulScalar, ops::DivScalar, ops::ScalarSub, ops::ScalarDiv, ops::PowScalar, ops::Cast,
                  ops::Add, ops::Sub, ops::Mul, ops::Div, ops::Pow, ops::Maximum, ops::Minimum, ops::Prelu,
                  ops::LerpScalar, ops::Lerp, ops::Where, ops::Equal, ops::NotEqual, ops::Less,
                  ops::LessEqual, ops::Greater, ops::GreaterEqual>();
}

}  // namespace tandem
