#include "autograd/ops/index.h"

#include <algorithm>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index_ops.h"
#include "autograd/ops/shape.h"
#include "core/kernels/index.h"

namespace tandem {

namespace ops {

namespace {

void require_index(const Tensor& index, const char* op) {
  require(index.defined() && (index.dtype() == DType::i64 || index.dtype() == DType::i32), op,
          "the index must be i64 or i32, got {}", to_string(index));
}

// One index per element: same rank as x, and no larger than x on the other axes.
void require_element_index(const Tensor& x, const Tensor& index, int axis, const char* op) {
  require_index(index, op);
  require(index.rank() == x.rank(), op, "index {} and tensor {} must have the same number of axes",
          to_string(index), to_string(x));
  for (int i = 0; i < x.rank(); ++i) {
    require(i == axis || index.shape()[i] <= x.shape()[i], op, "index {} is larger than {} on axis {}",
            to_string(index), to_string(x), i);
  }
}

// Zeros, unless the sink accumulates.
GradOutput zeroed(const Context& context, const Shape& shape, DType dtype) {
  const GradOutput y = context.destination(shape, dtype);
  if (!y.accumulate) context.backend.fill(y.tensor, 0.0);
  return y;
}

}  // namespace

Result Embedding::forward(Context& context, KeptIndex& saved, const In& in) const {
  saved.index = in.index;
  const Shape rows = in.index.shape().inserted(in.index.rank(), table[1]);
  const Tensor y = context.empty(rows, is_floating(context.dtype) ? context.dtype : stored);
  context.backend.index().index_select(in.table, in.index, 0, y, info.name);
  return {y};
}

Embedding::In Embedding::backward(const KeptIndex& saved, const Result& dy, const Needs& needs) const {
  if (const GradOutput* sink = needs.sink(0); sink && sink->marks.defined()) {
    Backend& backend = backend_for(sink->tensor.device());
    if (!sink->accumulate) backend.index().clear_rows(sink->tensor, sink->marks);
    backend.index().mark_rows(saved.index, sink->marks, padding_index);
    backend.index().index_add(dy.y, saved.index, 0, sink->tensor, padding_index);
    return {sink->tensor, {}};
  }
  const DType wide = wide_of(stored);
  return {apply(IndexAdd{0, table, wide, padding_index}, {dy.y, saved.index}, needs.sink(0)).y, {}};
}

Result Gather::forward(Context& context, KeptIndex& saved, const IndexedOperand& in) const {
  saved.index = in.index;
  const Tensor y = context.empty(in.index.shape(), in.x.dtype());
  context.backend.index().gather(in.x, in.index, axis, y);
  return {y};
}

IndexedOperand Gather::backward(const KeptIndex& saved, const Result& dy, const Needs& needs) const {
  return {apply(ScatterAdd{axis, shape}, {{}, saved.index, dy.y}, needs.sink(0)).y, {}};
}

Result ScatterAdd::forward(Context& context, KeptIndex& saved, const In& in) const {
  saved.index = in.index;
  const DType dtype = in.x.defined() ? promote(in.x.dtype(), in.src.dtype()) : in.src.dtype();
  if (!in.x.defined()) {
    const GradOutput y = zeroed(context, shape, dtype);
    context.backend.index().scatter_add(in.src, in.index, axis, y.tensor);
    return {y.tensor};
  }
  const Tensor y = context.converted(in.x, dtype);
  context.backend.index().scatter_add(in.src, in.index, axis, y);
  return {y};
}

ScatterAdd::In ScatterAdd::backward(const KeptIndex& saved, const Result& dy, const Needs& needs) const {
  In dx;
  if (needs[0]) dx.x = dy.y;
  if (needs[2]) dx.src = apply(Gather{axis, shape}, {dy.y, saved.index}).y;
  return dx;
}

Result IndexSelect::forward(Context& context, KeptIndex& saved, const IndexedOperand& in) const {
  saved.index = in.index;
  const Tensor y = context.empty(shape.with(axis, in.index.numel()), in.x.dtype());
  context.backend.index().index_select(in.x, in.index, axis, y);
  return {y};
}

IndexedOperand IndexSelect::backward(const KeptIndex& saved, const Result& dy, const Needs& needs) const {
  return {apply(IndexAdd{axis, shape, dy.y.dtype(), {}}, {dy.y, saved.index}, needs.sink(0)).y, {}};
}

Result IndexAdd::forward(Context& context, KeptIndex& saved, const In& in) const {
  require(in.src.defined(), info.name, "the source is absent");
  require_index(in.index, info.name);
  saved.index = in.index;
  const GradOutput y = zeroed(context, shape, dtype);
  context.backend.index().index_add(in.src, in.index, axis, y.tensor, skip);
  return {y.tensor};
}

IndexAdd::In IndexAdd::backward(const KeptIndex& saved, const Result& dy, const Needs&) const {
  // src has the index's shape instead of the axis: [K] for index_select, any shape for embedding.
  std::array<Index, kMaxRank> extents{};
  int rank = 0;
  for (int i = 0; i < axis; ++i) extents[rank++] = shape[i];
  for (const Index extent : saved.index.shape()) extents[rank++] = extent;
  for (int i = axis + 1; i < shape.rank(); ++i) extents[rank++] = shape[i];
  const Shape shape_of_src(std::span<const Index>(extents.data(), static_cast<std::size_t>(rank)));
  const Tensor flat = reshape(saved.index, {-1});
  const Tensor picked = reshape(apply(IndexSelect{axis, shape}, {dy.y, flat}).y, shape_of_src);
  if (!skip) return {picked, {}};
  std::vector<Index> mask_extents(static_cast<std::size_t>(rank), 1);
  std::copy(saved.index.shape().begin(), saved.index.shape().end(), mask_extents.begin() + axis);
  const Tensor skipped = Tensor::scalar(static_cast<double>(*skip), saved.index.options());
  const Tensor kept = cast(not_equal(saved.index, skipped), picked.dtype());
  return {picked * reshape(kept, mask_extents), {}};
}

Result OneHot::forward(Context& context, Nothing&, const In& in) const {
  const Tensor y = context.empty(in.index.shape().inserted(in.index.rank(), classes), dtype);
  context.backend.index().one_hot(in.index, y);
  return {y};
}

ValuesAndIndices TopK::forward(Context& context, KeptIndex& saved, const Operand& in) const {
  const Shape result = shape.with(axis, k);
  const DType dtype = is_floating(in.x.dtype()) ? context.dtype : in.x.dtype();
  const ValuesAndIndices out{context.empty(result, dtype), context.empty(result, DType::i64)};
  context.backend.index().topk(in.x, k, axis, largest, out.values, out.indices);
  saved.index = out.indices;
  return out;
}

Operand TopK::backward(const KeptIndex& saved, const ValuesAndIndices& dy, const Needs& needs) const {
  if (!dy.values.defined()) return {};
  return {apply(ScatterAdd{axis, shape}, {{}, saved.index, dy.values}, needs.sink(0)).y};
}

}  // namespace ops

Tensor embedding(const Tensor& table, const Tensor& index, std::optional<Index> padding_index) {
  require(table.rank() == 2 && is_floating(table.dtype()), "embedding",
          "the table must be floating [V,D], got {}", to_string(table));
  ops::require_index(index, "embedding");
  const Index rows = table.shape()[0];
  if (padding_index) {
    require(*padding_index >= -rows && *padding_index < rows, "embedding",
            "padding index {} lies outside [0,{})", *padding_index, rows);
    if (*padding_index < 0) *padding_index += rows;
  }
  return apply(ops::Embedding{table.shape(), table.dtype(), padding_index}, {table, index}).y;
}

Tensor gather(const Tensor& x, const Tensor& index, int axis) {
  const int at = normalized_axis(axis, x.rank(), "gather");
  ops::require_element_index(x, index, at, "gather");
  return apply(ops::Gather{at, x.shape()}, {x, index}).y;
}

Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, int axis) {
  const int at = normalized_axis(axis, x.rank(), "scatter_add");
  ops::require_element_index(x, index, at, "scatter_add");
  require(src.defined() && src.shape() == index.shape(), "scatter_add",
          "index {} and source {} must have the same shape", to_string(index), to_string(src));
  require(is_floating(x.dtype()) == is_floating(src.dtype()), "scatter_add", "cannot add {} to {}",
          to_string(src), to_string(x));
  // Floating sources of any type are added unrounded; the sum has the widest type, as elsewhere.
  return apply(ops::ScatterAdd{at, x.shape()},
               {x, index, is_floating(x.dtype()) ? src : cast(src, x.dtype())})
      .y;
}

Tensor index_select(const Tensor& x, const Tensor& index, int axis) {
  const int at = normalized_axis(axis, x.rank(), "index_select");
  ops::require_index(index, "index_select");
  require(index.rank() == 1, "index_select", "the index must be [K], got {}", to_string(index));
  return apply(ops::IndexSelect{at, x.shape()}, {x, index}).y;
}

Tensor one_hot(const Tensor& index, Index classes, DType dtype) {
  ops::require_index(index, "one_hot");
  require(classes > 0, "one_hot", "the number of classes must be positive, got {}", classes);
  return apply(ops::OneHot{classes, dtype}, {index}).y;
}

ValuesAndIndices topk(const Tensor& x, Index k, int axis, bool largest) {
  const int at = normalized_axis(axis, x.rank(), "topk");
  require(k >= 0 && k <= x.shape()[at], "topk", "k = {} lies outside [0,{}], the extent of axis {} of {}", k,
          x.shape()[at], at, to_string(x));
  return apply(ops::TopK{k, at, largest, x.shape()}, {x});
}

ValuesAndIndices sort(const Tensor& x, int axis, bool descending) {
  const int at = normalized_axis(axis, x.rank(), "sort");
  return apply(ops::Sort{{x.shape()[at], at, descending, x.shape()}}, {x});
}

OpInfos index_ops() {
  return infos_of<ops::Embedding, ops::Gather, ops::ScatterAdd, ops::IndexSelect, ops::IndexAdd, ops::OneHot,
                  ops::TopK, ops::Sort>();
}

}  // namespace tandem
