// The Dice loss, of public ops. What it holds between forward and backward are the logits as they came and
// two numbers a class; probabilities are computed again. Sums over pixels are f32.
#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss_classes.h"
#include "autograd/ops/loss_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"

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

// Of each class, [K]. An empty one, which without an epsilon is 0/0, is 1/1.
struct Dice {
  Tensor numerator, denominator;
};

Dice dice_of(const DiceLoss& op, const Parts& parts) {
  const Tensor of_p = op.options.squared ? parts.p * parts.p : parts.p;  // g is its own square
  const Dice dice{sum(parts.p * parts.g, {0}) * 2.0 + op.options.epsilon,
                  sum(of_p, {0}) + sum(parts.g, {0}) + op.options.epsilon};
  if (op.options.epsilon > 0.0) return dice;
  const TensorOptions options = dice.denominator.options();
  const Tensor one = Tensor::scalar(1.0, options);
  const Tensor empty = equal(dice.denominator, Tensor::scalar(0.0, options));
  return {where(empty, one, dice.numerator), where(empty, one, dice.denominator)};
}

}  // namespace

DiceLoss::Out DiceLoss::forward(Context&, Saved& saved, const In& in) const {
  const Inside inside;
  const Dice dice = dice_of(*this, parts_of(*this, in.logits, in.target));
  saved = {in.logits, in.target, dice.numerator, dice.denominator};
  return {1.0 - mean(dice.numerator / dice.denominator)};
}

DiceLoss::In DiceLoss::backward(const Saved& saved, const Out& dloss, const Needs& needs) const {
  const Parts parts = parts_of(*this, saved.logits, saved.target);
  const Dice dice = needs.create_graph() ? dice_of(*this, parts) : Dice{saved.numerator, saved.denominator};
  const auto columns = static_cast<double>(saved.logits.size(1));
  const Tensor slope = dloss.loss * (-1.0 / columns) / dice.denominator;
  const Tensor against = slope * dice.numerator / dice.denominator;
  const Tensor& p = parts.p;
  const Tensor dp = parts.g * (slope * 2.0) - (options.squared ? p * (against * 2.0) : against);
  if (columns == 1.0) return {dp * p * (1.0 - p), {}};
  return {p * (dp - sum(p * dp, {1}, /*keep_axes=*/true)), {}};
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
          "logits {} are of fewer than 2 classes; of one, use binary_dice_loss", to_string(logits));
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
  require(mask.shape() == shape, kBinary, "logits {} need a mask of as many elements, got {}",
          to_string(logits), to_string(mask));
  const Index count = mask.numel();
  const Tensor truth = reshape(mask.dtype() == DType::boolean ? cast(mask, DType::u8) : mask, {count});
  ops::require_classes(kBinary, truth, options.ignore_index, 2);
  return apply(ops::DiceLoss{options}, {reshape(logits, {count, 1}), truth}).loss;
}

}  // namespace tandem
