// Dice loss made of public ops. Saved for backward are only the logits and two numbers per class;
// probabilities are recomputed. Sums over pixels are f32.
#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss_classes.h"
#include "autograd/ops/loss_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/kernels/softmax.h"

namespace tandem {

namespace ops {

namespace {

struct Parts {
  Tensor p, g;  // [N,K] f32 (f64): probabilities and truth, both 0 in ignored rows
};

Parts parts_of(const DiceLoss& op, const Tensor& logits, const Tensor& target) {
  const Tensor x = cast(logits, wide_of(logits.dtype()));
  const Index rows = x.size(0), columns = x.size(1);
  const Classes classes = classes_of(target, {}, op.options.ignore_index, x.dtype());
  Parts parts{columns == 1 ? sigmoid(x) : softmax(x),
              one_hot(reshape(classes.index, {rows}), std::max<Index>(columns, 2), x.dtype())};
  if (columns == 1) parts.g = slice(parts.g, 1, 1, 2);
  if (op.options.ignore_index) {
    const Tensor zero = Tensor::scalar(0.0, x.options());
    const Tensor ignored = equal(reshape(classes.row_weight, {rows, 1}), zero);
    parts.p = where(ignored, zero, parts.p);
    parts.g = where(ignored, zero, parts.g);
  }
  return parts;
}

// Per class, [K]. For an empty class, 0/0 without an epsilon, Dice is 1/1.
struct Dice {
  Tensor numerator, denominator;
};

Dice dice_of(const DiceLoss& op, const Tensor& of_pg, const Tensor& of_p, const Tensor& of_g) {
  const Dice dice{of_pg * 2.0 + op.options.epsilon, of_p + of_g + op.options.epsilon};
  if (op.options.epsilon > 0.0) return dice;
  const TensorOptions options = dice.denominator.options();
  const Tensor one = Tensor::scalar(1.0, options);
  const Tensor empty = equal(dice.denominator, Tensor::scalar(0.0, options));
  return {where(empty, one, dice.numerator), where(empty, one, dice.denominator)};
}

Dice composed_dice(const DiceLoss& op, const Parts& parts) {
  // g² = g.
  return dice_of(op, sum(parts.p * parts.g, {0}), sum(op.options.squared ? parts.p * parts.p : parts.p, {0}),
                 sum(parts.g, {0}));
}

bool is_fused(const Tensor& logits) { return logits.size(1) <= kMostDiceClasses; }

DiceOptions options_of(const DiceLoss& op) { return {op.options.squared, op.options.ignore_index}; }

Dice fused_dice(const DiceLoss& op, Backend& backend, const Tensor& logits, const Tensor& target) {
  const Index classes = logits.size(1);
  const Tensor sums = Tensor::empty({3, classes}, {wide_of(logits.dtype()), logits.device()});
  backend.softmax().dice_sums(logits, target, options_of(op), sums);
  const auto row = [&](Index i) { return sums.rows(i, 1).viewed({classes}); };
  return dice_of(op, row(0), row(1), row(2));
}

// Derivatives of the loss by each sum: -1/K times those of Dice.
struct Slopes {
  Tensor of_pg, of_p;  // [K]
};

Slopes slopes_of(const Dice& dice, const Tensor& dloss) {
  const auto classes = static_cast<double>(dice.numerator.numel());
  const Tensor each = dloss * (-1.0 / classes) / dice.denominator;
  return {each * 2.0, neg(each * dice.numerator / dice.denominator)};
}

Tensor composed_gradient(const DiceLoss& op, const DiceLoss::Saved& saved, const Tensor& dloss) {
  const Parts parts = parts_of(op, saved.logits, saved.target);
  const Slopes slopes = slopes_of(composed_dice(op, parts), dloss);
  const Tensor& p = parts.p;
  const Tensor dp = parts.g * slopes.of_pg + (op.options.squared ? p * (slopes.of_p * 2.0) : slopes.of_p);
  if (saved.logits.size(1) == 1) return dp * p * (1.0 - p);
  return p * (dp - sum(p * dp, {1}, /*keep_axes=*/true));
}

}  // namespace

Loss DiceLoss::forward(Context& context, Saved& saved, const In& in) const {
  const Inside inside;
  const Dice dice = is_fused(in.logits) ? fused_dice(*this, context.backend, in.logits, in.target)
                                        : composed_dice(*this, parts_of(*this, in.logits, in.target));
  saved = {in.logits, in.target, dice.numerator, dice.denominator};
  return {1.0 - mean(dice.numerator / dice.denominator)};
}

DiceLoss::In DiceLoss::backward(const Saved& saved, const Loss& dloss, const Needs& needs) const {
  if (needs.create_graph() || !is_fused(saved.logits))
    return {composed_gradient(*this, saved, dloss.loss), {}};
  const Slopes slopes = slopes_of({saved.numerator, saved.denominator}, dloss.loss);
  const Tensor dlogits = Tensor::empty(saved.logits.shape(), saved.logits.options());
  backend_for(dlogits.device())
      .softmax()
      .dice_backward(saved.logits, saved.target, options_of(*this), stack({slopes.of_pg, slopes.of_p}, 0),
                     dlogits);
  return {dlogits, {}};
}

}  // namespace ops

namespace {

void require_epsilon(const char* op, const DiceLossOptions& options) {
  require(options.epsilon >= 0.0, op, "epsilon {} is negative", options.epsilon);
}

}  // namespace

Tensor dice_loss(const Tensor& logits, const Tensor& target, const DiceLossOptions& options) {
  require(logits.defined() && target.defined(), "dice_loss", "needs logits and a target, got {} and {}",
          to_string(logits), to_string(target));
  require_epsilon("dice_loss", options);
  require(logits.rank() > 0 && logits.size(-1) >= 2, "dice_loss",
          "logits {} have fewer than 2 classes; use binary_dice_loss for one", to_string(logits));
  const ops::Rows rows = ops::rows_of_classes("dice_loss", logits, target, options.ignore_index);
  return apply(ops::DiceLoss{options}, {rows.x, rows.target}).loss;
}

Tensor binary_dice_loss(const Tensor& logits, const Tensor& mask, const DiceLossOptions& options) {
  constexpr const char* kBinary = "binary_dice_loss";
  require(logits.defined() && mask.defined(), kBinary, "needs logits and a mask, got {} and {}",
          to_string(logits), to_string(mask));
  require_epsilon(kBinary, options);
  require(is_floating(logits.dtype()), kBinary, "expects floating logits, got {}", to_string(logits));
  const bool with_axis = logits.rank() > 0 && logits.size(-1) == 1 && mask.rank() == logits.rank() - 1;
  const Shape shape = with_axis ? logits.shape().without(logits.rank() - 1) : logits.shape();
  require(mask.shape() == shape, kBinary, "logits {} need a mask with the same number of elements, got {}",
          to_string(logits), to_string(mask));
  const Index count = mask.numel();
  const Tensor truth = reshape(mask.dtype() == DType::boolean ? cast(mask, DType::u8) : mask, {count});
  ops::require_classes(kBinary, truth, options.ignore_index, 2);
  return apply(ops::DiceLoss{options}, {reshape(logits, {count, 1}), truth}).loss;
}

}  // namespace tandem
