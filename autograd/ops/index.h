// Ops that address by index. Indices are i64 or i32 and must lie in [0, extent): UserError names the first
// that does not. Repeated indices add their gradients in a fixed order.
#pragma once

#include <optional>

#include "autograd/op.h"

namespace tandem {

// Rows of table [V,D] for index [...] → [...,D]. `padding_index`: that row receives no gradient.
Tensor embedding(const Tensor& table, const Tensor& index, std::optional<Index> padding_index = std::nullopt);
// y[..i..] = x[..index[..i..]..] along axis; index has x's rank and is no larger elsewhere.
Tensor gather(const Tensor& x, const Tensor& index, int axis);
// x with src added at the positions of index along axis.
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, int axis);
// index [K]: slices of x along axis.
Tensor index_select(const Tensor& x, const Tensor& index, int axis);
// index [...] → [...,classes], f32 unless another dtype is asked for. No gradient.
Tensor one_hot(const Tensor& index, Index classes, DType dtype = DType::f32);

struct ValuesAndIndices {
  Tensor values, indices;  // indices i64
};
ValuesAndIndices topk(const Tensor& x, Index k, int axis = -1, bool largest = true);
ValuesAndIndices sort(const Tensor& x, int axis = -1, bool descending = false);  // stable

}  // namespace tandem
