#include "autograd/ops/loss_classes.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::ops {

void require_classes(const char* op, const Tensor& target, std::optional<Index> ignore_index, Index classes) {
  require(target.dtype() == DType::i64 || target.dtype() == DType::i32 || target.dtype() == DType::u8, op,
          "classes must be i64, i32 or u8, got {}", to_string(target));
  if (target.device().type != DeviceType::cpu) return;
  const auto check = [&](const auto* values) {
    for (Index row = 0; row < target.numel(); ++row) {
      const auto value = static_cast<Index>(values[row]);
      if ((value >= 0 && value < classes) || value == ignore_index) continue;
      throw UserError(op, fmt::format("target {} in row {} lies outside [0,{})", value, row, classes));
    }
  };
  if (target.dtype() == DType::i32) return check(target.data<std::int32_t>());
  if (target.dtype() == DType::u8) return check(target.data<std::uint8_t>());
  check(target.data<std::int64_t>());
}

void require_weights(const char* op, const Tensor& weights, Index classes) {
  require(!weights.defined() || (weights.shape() == Shape{classes} && is_floating(weights.dtype())), op,
          "class weights must be floating [{}], got {}", classes, to_string(weights));
}

void require_smoothing(const char* op, double smoothing) {
  require(smoothing >= 0.0 && smoothing < 1.0, op, "label smoothing {} lies outside [0,1)", smoothing);
}

Tensor divisor_of(const Tensor& row_weight) {
  const Tensor total = sum(row_weight), zero = Tensor::scalar(0.0, total.options());
  return where(equal(total, zero), Tensor::scalar(1.0, total.options()), total);
}

Rows rows_of_classes(const char* op, const Tensor& x, const Tensor& target,
                     std::optional<Index> ignore_index) {
  require(x.defined() && is_floating(x.dtype()) && x.rank() > 0, op, "expects floating [N,C], got {}",
          to_string(x));
  const Index classes = x.shape()[x.rank() - 1];
  require(target.shape() == x.shape().without(x.rank() - 1), op,
          "{} needs one class per row, got the target {}", to_string(x), to_string(target));
  require_classes(op, target, ignore_index, classes);
  return {reshape(x, {target.numel(), classes}), reshape(target, {target.numel()})};
}

Classes classes_of(const Tensor& classes, const Tensor& class_weights, std::optional<Index> ignore_index,
                   DType dtype) {
  // u8 is no index type, and cannot be compared with every value of ignore_index.
  const Tensor target = classes.dtype() == DType::u8 ? cast(classes, DType::i64) : classes;
  Tensor index = target, weight;
  if (ignore_index) {
    const Tensor ignored =
        equal(target, Tensor::scalar(static_cast<double>(*ignore_index), target.options()));
    index = where(ignored, Tensor::zeros(target.shape(), target.options()), target);
    weight = sub(1.0, cast(ignored, dtype));
  }
  if (class_weights.defined()) {
    const Tensor own = cast(index_select(class_weights.detach(), index, 0), dtype);
    weight = weight.defined() ? weight * own : own;
  }
  if (!weight.defined()) weight = Tensor::full(target.shape(), 1.0, {dtype, target.device()});
  return {reshape(index, {target.numel(), 1}), weight};
}

}  // namespace tandem::ops
