// Cross entropy of a linear layer's logits, by chunks of rows (Hsu et al., "Liger kernel", 2024).
#include <algorithm>

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/loss_classes.h"
#include "autograd/ops/loss_ops.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/matmul.h"
#include "core/kernels/reduce.h"
#include "core/kernels/softmax.h"

namespace tandem {

namespace ops {

namespace {

// Logits in memory at once. Every chunk reads the weight and its f32 gradient, so chunks are not smaller.
constexpr Index kChunkBytes = Index{64} << 20u;

// Factor of the logits' gradients before they are rounded: those of unlikely classes are subnormal in f16.
constexpr double gradient_scale(DType dtype) { return dtype == DType::f16 ? 256.0 : 1.0; }

Index rows_at_once(Index rows, Index classes, DType dtype, Index asked) {
  if (asked > 0) return asked;
  const Index bytes = std::max<Index>(1, rows * classes * static_cast<Index>(size_of(dtype)));
  const Index chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  return std::max<Index>(1, (rows + chunks - 1) / chunks);
}

// The gradients of a chunk from those of its logits.
void add_gradients(Backend& backend, const LinearCrossEntropy::In& in, const LinearCrossEntropy::Saved& sums,
                   const Tensor& dlogits, Index first) {
  const Index count = dlogits.size(0);
  const bool later = first > 0;
  if (sums.dx.defined()) backend.matmul().matmul(dlogits, in.weight, {}, sums.dx.rows(first, count), {});
  if (sums.dweight.defined())
    backend.matmul().matmul(dlogits, in.x.rows(first, count), {}, sums.dweight,
                            {.transpose_a = true, .accumulate = later});
  if (sums.dbias.defined()) backend.reduce().reduce(Reduction::sum, dlogits, 1u, sums.dbias, later);
}

}  // namespace

ProductSizes LinearCrossEntropy::products(std::span<const Tensor> inputs, std::span<const Tensor>) {
  return {ProductSize{.m = inputs[0].size(0), .n = inputs[1].size(0), .k = inputs[1].size(1)}};
}

Loss LinearCrossEntropy::forward(Context& context, Saved& saved, const In& in) const {
  const Index rows = in.x.size(0), classes = in.weight.size(0);
  const DType dtype = context.dtype, wide = wide_of(dtype);
  Backend& backend = context.backend;
  const bool recorded = GradMode::records();
  const auto gradient_of = [&](const Tensor& input) {
    if (!recorded || !input.requires_grad()) return Tensor();
    return rows > 0 ? context.empty(input.shape(), wide)
                    : Tensor::zeros(input.shape(), {.dtype = wide, .device = backend.device()});
  };
  saved = {gradient_of(in.x), gradient_of(in.weight), gradient_of(in.bias), {}};
  const Inside inside;
  const Tensor loss = context.empty({rows}, wide), row_weight = context.empty({rows}, wide);
  const Index most = std::min(rows, rows_at_once(rows, classes, dtype, chunk_rows));
  const TensorOptions memory{dtype, backend.device(), MemoryKind::workspace};
  const Tensor chunk = Tensor::empty({most, classes}, memory), lse = context.empty({most}, wide);
  const bool differentiates = saved.dx.defined() || saved.dweight.defined() || saved.dbias.defined();
  const Tensor seed =
      differentiates ? Tensor::full({most}, gradient_scale(dtype), {wide, backend.device()}) : Tensor();
  for (Index first = 0; first < rows; first += most) {
    const Index count = std::min(most, rows - first);
    const Tensor logits = chunk.rows(0, count), target = in.target.rows(first, count);
    backend.matmul().matmul(in.x.rows(first, count), in.weight, in.bias, logits, {.transpose_b = true});
    backend.softmax().cross_entropy(logits, target, in.class_weights, options, loss.rows(first, count),
                                    row_weight.rows(first, count), lse.rows(0, count));
    if (!differentiates) continue;
    backend.softmax().cross_entropy_backward(logits, target, in.class_weights, options, lse.rows(0, count),
                                             seed.rows(0, count), logits);
    add_gradients(backend, in, saved, logits, first);
  }
  const Tensor scale = Tensor::scalar(gradient_scale(dtype), loss.options());
  if (reduce == Reduce::sum) {
    saved.divisor = scale;
    return {sum(loss)};
  }
  const Tensor divisor = divisor_of(row_weight);
  saved.divisor = divisor * scale;
  return {sum(loss) / divisor};
}

LinearCrossEntropy::In LinearCrossEntropy::backward(const Saved& saved, const Loss& dloss,
                                                    const Needs& needs) const {
  const Tensor factor = dloss.loss / saved.divisor;
  const auto scaled = [&](std::size_t input, const Tensor& gradient) -> Tensor {
    if (!needs[input]) return {};
    const GradOutput* const sink = needs.sink(input);
    const GradOutput to =
        sink ? *sink : GradOutput{Tensor::empty(gradient.shape(), gradient.options()), false};
    const Tensor operands[] = {gradient, factor};
    backend_for(gradient.device())
        .elementwise()
        .pointwise(formula_id<formulas::Mul>(), {}, operands, to.tensor, to.accumulate);
    return to.tensor;
  };
  return {scaled(0, saved.dx), scaled(1, saved.dweight), scaled(2, saved.dbias), {}, {}};
}

Loss LinearCrossEntropy::composed(const LinearCrossEntropy& op, const In& in) {
  const CrossEntropyLossOptions options{.label_smoothing = op.options.label_smoothing,
                                        .ignore_index = op.options.ignore_index,
                                        .class_weights = in.class_weights,
                                        .reduce = op.reduce};
  return {cross_entropy(linear(in.x, in.weight, in.bias), in.target, options)};
}

}  // namespace ops

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                            const CrossEntropyLossOptions& options, Index chunk_rows) {
  const char* const op = ops::LinearCrossEntropy::info.name;
  require(x.defined() && x.rank() >= 1 && is_floating(x.dtype()), op, "x must be floating [...,C], got {}",
          to_string(x));
  require(
      weight.defined() && weight.rank() == 2 && is_floating(weight.dtype()) && weight.size(1) == x.size(-1),
      op, "weight must be floating [V,{}] for x {}, got {}", x.size(-1), to_string(x), to_string(weight));
  const Index classes = weight.size(0);
  require(!bias.defined() || (bias.shape() == Shape{classes} && is_floating(bias.dtype())), op,
          "bias must be floating [{}], got {}", classes, to_string(bias));
  require(target.defined() && target.shape() == x.shape().without(x.rank() - 1), op,
          "{} needs one class per row, got the target {}", to_string(x), to_string(target));
  require(options.reduce != Reduce::none, op,
          "gives the mean or the sum of all rows; cross_entropy(linear(x, weight), target) gives each row's");
  require(chunk_rows >= 0, op, "chunk_rows {} is negative; 0 chooses", chunk_rows);
  ops::require_smoothing(op, options.label_smoothing);
  ops::require_weights(op, options.class_weights, classes);
  ops::require_classes(op, target, options.ignore_index, classes);
  const ops::LinearCrossEntropy call{
      {options.label_smoothing, options.ignore_index}, options.reduce, chunk_rows};
  return apply(call, {reshape(x, {target.numel(), x.size(-1)}), weight, bias,
                      reshape(target, {target.numel()}), options.class_weights})
      .loss;
}

}  // namespace tandem
