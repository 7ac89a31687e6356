// Shared parts of classification losses: rows [N,C] with a class each.
#pragma once

#include <optional>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "core/tensor.h"

namespace tandem::ops {

// Scope of a loss's forward that runs other ops: not recorded, and without a precision policy.
class Inside {
  NoGrad no_grad_;
  PrecisionScope no_policy_{nullptr};
};

// Throws UserError unless the targets are i64, i32 or u8, and each is a class or ignored; on an asynchronous
// device only a kernel can check the values.
void require_classes(const char* op, const Tensor& target, std::optional<Index> ignore_index, Index classes);

void require_weights(const char* op, const Tensor& weights, Index classes);
void require_smoothing(const char* op, double smoothing);

// Divisor of a mean: the sum of the rows' weights, or 1 if it is 0.
Tensor divisor_of(const Tensor& row_weight);

struct Rows {
  Tensor x, target;  // [N,C], [N]
};

// Checks x, floating [...,C], and its classes [...], and flattens all axes but the last.
Rows rows_of_classes(const char* op, const Tensor& x, const Tensor& target,
                     std::optional<Index> ignore_index);

struct Classes {
  Tensor index;       // [N,1], 0 in ignored rows
  Tensor row_weight;  // [N], 0 in ignored rows
};

// For a target [N]; class_weights [C] or absent.
Classes classes_of(const Tensor& classes, const Tensor& class_weights, std::optional<Index> ignore_index,
                   DType dtype);

}  // namespace tandem::ops
