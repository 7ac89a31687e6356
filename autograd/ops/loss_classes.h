// What the losses of classes share: rows [N,C] and a class for each.
#pragma once

#include <optional>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "core/tensor.h"

namespace tandem::ops {

// While the forward of a loss runs other ops: they are not recorded, and their dtypes are the loss's own
// affair.
class Inside {
  NoGrad no_grad_;
  PrecisionScope no_policy_{nullptr};
};

// Throws UserError unless the targets are i64, i32 or u8, and every one is a class or is ignored; on an
// asynchronous device only a kernel can tell the latter.
void require_classes(const char* op, const Tensor& target, std::optional<Index> ignore_index, Index classes);

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

// Of a target [N]; class_weights [C] or absent.
Classes classes_of(const Tensor& classes, const Tensor& class_weights, std::optional<Index> ignore_index,
                   DType dtype);

}  // namespace tandem::ops
