// Ops that address by index. Indices are i64 or i32 and must lie in [0, extent); a UserError names the first
// one outside. Gradients of repeated indices are added in a fixed order.
#pragma once

#include <optional>

#include "autograd/op.h"

namespace tandem {

// Rows of table [V,D] for index [...] → [...,D]. The row `padding_index` receives no gradient.
Tensor embedding(const Tensor& table, const Tensor& index, std::optional<Index> padding_index = std::nullopt);
// y[..i..] = x[..index[..i..]..] along axis; index has x's rank and is no larger on other axes.
Tensor gather(const Tensor& x, const Tensor& index, int axis);
// x with src added at the positions of index along axis.
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, int axis);
// index [K]: slices of x along axis.
Tensor index_select(const Tensor& x, const Tensor& index, int axis);
// index [...] → [...,classes], by default f32. No gradient.
Tensor one_hot(const Tensor& index, Index classes, DType dtype = DType::f32);

struct ValuesAndIndices {
  Tensor values, indices;  // indices i64
};
ValuesAndIndices topk(const Tensor& x, Index k, int axis = -1, bool largest = true);
ValuesAndIndices sort(const Tensor& x, int axis = -1, bool descending = false);  // stable

}  // namespace tandem
