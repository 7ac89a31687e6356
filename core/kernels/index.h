// Index kernels. Indices are i64 (or i32) and must be in range. A bad index throws UserError if the device
// can tell without waiting; otherwise the next synchronisation throws.
#pragma once

#include <optional>

#include "core/tensor.h"

namespace tandem {

// The larger tensor of index_select or index_add, [outer, extent, inner], and the number of indices.
struct Slices {
  Index outer, extent, inner, picked;
  Slices(const Shape& large, int axis, Index count)
      : outer(large.product(0, axis)),
        extent(large[axis]),
        inner(large.product(axis + 1, large.rank())),
        picked(count) {}
};

struct IndexKernels {
  virtual ~IndexKernels() = default;

  virtual void gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) = 0;
  // Adds src to y at the positions of `index` along `axis`, in a fixed order.
  virtual void scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) = 0;
  // index (K elements of any shape) picks slices of x along `axis`; y has extent K there. Errors name `op`.
  virtual void index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                            const char* op = "index_select") = 0;
  // Adds slice k of src to slice index[k] of y, in the order of k, unless index[k] is `skip`.
  virtual void index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                         std::optional<Index> skip = std::nullopt) = 0;
  // marks (u8 [V]) ← 1 at every index in [0, V) but `skip`; other marks stay.
  virtual void mark_rows(const Tensor& index, const Tensor& marks,
                         std::optional<Index> skip = std::nullopt) = 0;
  // Marked rows of x (f32 [V,E]) ← 0, and all marks ← 0.
  virtual void clear_rows(const Tensor& x, const Tensor& marks) = 0;
  virtual void one_hot(const Tensor& index, const Tensor& y) = 0;
  // Values and indices (i64) of the first k along `axis` in sorted order; stable; NaN counts as largest.
  virtual void topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
                    const Tensor& indices) = 0;
};

}  // namespace tandem
