#include "autograd/ops/matmul.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape_ops.h"
#include "core/kernels/matmul.h"
#include "core/kernels/reduce.h"

namespace tandem {

namespace ops {

namespace {

void require_floating(const OpInfo& info, const char* name, const Tensor& tensor) {
  require(tensor.defined(), info.name, "{} must be given", name);
  require(is_floating(tensor.dtype()), info.name, "{} must be floating, got {}", name, to_string(tensor));
}

// Checks the operands and returns the shape of op(a)·op(b).
Shape product_shape(const Matmul& op, const Tensor& a, const Tensor& b) {
  require_floating(Matmul::info, "a", a);
  require_floating(Matmul::info, "b", b);
  const int ra = a.rank(), rb = b.rank();
  require(ra >= 2 && rb >= 2, "matmul", "both operands need at least 2 axes, got {} and {}", to_string(a),
          to_string(b));
  const Index m = a.size(op.transpose_a ? -1 : -2), k = a.size(op.transpose_a ? -2 : -1);
  const Index inner = b.size(op.transpose_b ? -1 : -2), n = b.size(op.transpose_b ? -2 : -1);
  require(k == inner, "matmul", "{}{} has inner extent {}, {}{} has {}", to_string(a.shape()),
          op.transpose_a ? " (transposed)" : "", k, to_string(b.shape()),
          op.transpose_b ? " (transposed)" : "", inner);
  const auto batch_of = [](const Tensor& t) {
    return t.shape().extents().first(static_cast<std::size_t>(t.rank() - 2));
  };
  require(ra == 2 || rb == 2 || std::ranges::equal(batch_of(a), batch_of(b)), "matmul",
          "batch axes of {} and {} must be equal, or absent on one side", to_string(a.shape()),
          to_string(b.shape()));
  const Tensor& batched = ra > 2 ? a : b;
  Shape shape = batched.shape();
  return shape.with(shape.rank() - 2, m).with(shape.rank() - 1, n);
}

// Sums a per-batch product to the gradient of an operand shared by all batches.
Tensor over_batches(const Tensor& gradient, const Tensor& operand) {
  if (gradient.rank() == operand.rank()) return gradient;
  return sum_to(gradient, operand.shape());
}

}  // namespace

ProductSizes Matmul::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &a = inputs[0], &y = outputs[0];
  const Index m = y.size(-2);  // one extent of a, which may be transposed; k is the other
  return {ProductSize{.m = m,
                      .n = y.size(-1),
                      .k = a.size(-1) * a.size(-2) / std::max<Index>(1, m),
                      .count = y.shape().product(0, y.rank() - 2)}};
}

Result Matmul::forward(Context& context, In& saved, const In& in) const {
  const GradOutput y = context.destination(product_shape(*this, in.a, in.b));
  context.backend.matmul().matmul(
      in.a, in.b, {}, y.tensor,
      {.transpose_a = transpose_a, .transpose_b = transpose_b, .accumulate = y.accumulate});
  saved = {in.a, in.b};
  return {y.tensor};
}

Matmul::In Matmul::backward(const In& saved, const Result& dy, const Needs& needs) const {
  const auto& [a, b] = saved;
  const Tensor& g = dy.y;
  // Only into the sink if the product is the whole gradient.
  const auto product = [&](std::size_t input, const Tensor& operand, const Tensor& left, const Tensor& right,
                           bool ta, bool tb) {
    const bool whole = operand.rank() == g.rank();
    return over_batches(apply(Matmul{ta, tb}, {left, right}, whole ? needs.sink(input) : nullptr).y, operand);
  };
  In result;
  if (needs[0]) {
    result.a =
        transpose_a ? product(0, a, b, g, transpose_b, true) : product(0, a, g, b, false, !transpose_b);
  }
  if (needs[1]) {
    const bool shared = b.rank() == 2 && a.rank() > 2 && !transpose_a;  // one b for all rows of all batches
    if (shared) {
      result.b = transpose_b ? sum_of_outer_products(g, a, needs.sink(1))
                             : sum_of_outer_products(a, g, needs.sink(1));
    } else {
      result.b =
          transpose_b ? product(1, b, g, a, true, transpose_a) : product(1, b, a, g, !transpose_a, false);
    }
  }
  return result;
}

ProductSizes Linear::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &x = inputs[0], &y = outputs[0];
  return {ProductSize{.m = x.shape().product(0, x.rank() - 1), .n = y.size(-1), .k = x.size(-1)}};
}

Result Linear::forward(Context& context, Saved& saved, const In& in) const {
  require_floating(info, "x", in.x);
  require_floating(info, "weight", in.weight);
  require(in.weight.rank() == 2, info.name, "weight must be [O,I], got {}", to_string(in.weight));
  require(in.x.rank() >= 1 && in.x.size(-1) == in.weight.size(1), info.name,
          "weight {} expects {} input features, x is {}", to_string(in.weight.shape()), in.weight.size(1),
          to_string(in.x.shape()));
  const Index all = in.weight.size(0), inputs = in.weight.size(1);
  if (in.bias.defined()) {
    require_floating(info, "bias", in.bias);
    require(in.bias.shape() == Shape{all}, info.name, "weight {} needs a bias of [{}], got {}",
            to_string(in.weight.shape()), all, to_string(in.bias));
  }
  const auto [first, count] = outputs.value_or(OutputRange{0, all});
  require(!outputs || (first >= 0 && count > 0 && first <= all - count), info.name,
          "outputs from {} on, {} of them, are not among the {} of weight {}", first, count, all,
          to_string(in.weight.shape()));
  const Tensor y = context.empty(in.x.shape().with(in.x.rank() - 1, count));
  const Index rows = in.x.shape().product(0, in.x.rank() - 1);
  context.backend.matmul().matmul(in.x.viewed({rows, inputs}), in.weight.rows(first, count),
                                  in.bias.defined() ? in.bias.rows(first, count) : in.bias,
                                  y.viewed({rows, count}), {.transpose_b = true});
  saved = {in.x, in.weight};
  return {y};
}

Linear::In Linear::backward(const Saved& saved, const Result& dy, const Needs& needs) const {
  In result;
  const auto& [x, all] = saved;
  const Tensor weight = outputs ? slice(all, 0, outputs->first, outputs->first + outputs->count) : all;
  if (needs[0]) {
    if (x.rank() >= 2) {
      result.x = apply(Matmul{}, {dy.y, weight}, needs.sink(0)).y;
    } else {
      result.x = reshape(matmul(reshape(dy.y, Shape{1, dy.y.numel()}), weight), x.shape());
    }
  }
  // Gradients of outputs are zero in the other rows.
  const auto whole = [&](const Tensor& gradient, std::size_t input) {
    const Shape shape = gradient.shape().with(0, all.size(0));
    return apply(Pad{range_of(shape, 0, outputs->first, outputs->count)}, {gradient}, needs.sink(input)).y;
  };
  if (needs[1])
    result.weight =
        outputs ? whole(sum_of_outer_products(dy.y, x), 1) : sum_of_outer_products(dy.y, x, needs.sink(1));
  if (needs[2]) result.bias = outputs ? whole(bias_gradient(dy.y), 2) : bias_gradient(dy.y, needs.sink(2));
  return result;
}

ProductSizes SumOfOuterProducts::products(std::span<const Tensor> inputs, std::span<const Tensor>) {
  const Tensor &left = inputs[0], &right = inputs[1];
  return {
      ProductSize{.m = left.size(-1), .n = right.size(-1), .k = left.shape().product(0, left.rank() - 1)}};
}

Result SumOfOuterProducts::forward(Context& context, In& saved, const In& in) const {
  require_floating(info, "left", in.left);
  require_floating(info, "right", in.right);
  const int rank = in.left.rank();
  require(rank >= 1 && in.right.rank() == rank &&
              in.left.shape().without(rank - 1) == in.right.shape().without(rank - 1),
          info.name, "all axes but the last must be equal, got {} and {}", to_string(in.left.shape()),
          to_string(in.right.shape()));
  const Index rows = in.left.shape().product(0, rank - 1), p = in.left.size(-1), q = in.right.size(-1);
  const GradOutput y = context.destination({p, q}, wide_of(context.dtype));
  context.backend.matmul().matmul(in.left.viewed({rows, p}), in.right.viewed({rows, q}), {}, y.tensor,
                                  {.transpose_a = true, .accumulate = y.accumulate});
  saved = {in.left, in.right};
  return {y.tensor};
}

SumOfOuterProducts::In SumOfOuterProducts::backward(const In& saved, const Result& dy,
                                                    const Needs& needs) const {
  In result;
  const auto rows_of = [](const Tensor& t) { return t.rank() >= 2 ? t : reshape(t, Shape{1, t.numel()}); };
  const auto like = [](const Tensor& t, const Tensor& shape) {
    return t.shape() == shape.shape() ? t : reshape(t, shape.shape());
  };
  if (needs[0]) result.left = like(matmul(rows_of(saved.right), dy.y, false, true), saved.left);
  if (needs[1]) result.right = like(matmul(rows_of(saved.left), dy.y), saved.right);
  return result;
}

Result BiasGradient::forward(Context& context, Operand& saved, const Operand& in) const {
  require_floating(info, "x", in.x);
  require(in.x.rank() >= 1, info.name, "x needs at least 1 axis, got {}", to_string(in.x));
  const GradOutput y = context.destination({in.x.size(-1)}, wide_of(in.x.dtype()));
  const Index rows = in.x.shape().product(0, in.x.rank() - 1);
  context.backend.reduce().reduce(Reduction::sum, in.x.viewed({rows, in.x.size(-1)}), 1u, y.tensor,
                                  y.accumulate);
  saved.x = in.x;
  return {y.tensor};
}

Operand BiasGradient::backward(const Operand& saved, const Result& dy, const Needs&) const {
  const Tensor spread = broadcast_to(dy.y, saved.x.shape());
  return {spread.dtype() == saved.x.dtype() ? spread : cast(spread, saved.x.dtype())};
}

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return apply(ops::Matmul{transpose_a, transpose_b}, {a, b}).y;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined() && a.rank() == 3 && b.rank() == 3, "bmm",
          "both operands must be [B,M,K] and [B,K,N], got {} and {}", to_string(a), to_string(b));
  return matmul(a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return apply(ops::Linear{}, {x, weight, bias}).y;
}

Tensor linear_outputs(const Tensor& x, const Tensor& weight, const Tensor& bias, OutputRange outputs) {
  return apply(ops::Linear{outputs}, {x, weight, bias}).y;
}

Tensor sum_of_outer_products(const Tensor& left, const Tensor& right, const GradOutput* sink) {
  return apply(ops::SumOfOuterProducts{}, {left, right}, sink).y;
}

Tensor bias_gradient(const Tensor& x, const GradOutput* sink) {
  return apply(ops::BiasGradient{}, {x}, sink).y;
}

OpInfos matmul_ops() {
  return infos_of<ops::Matmul, ops::Linear, ops::SumOfOuterProducts, ops::BiasGradient>();
}

}  // namespace tandem
