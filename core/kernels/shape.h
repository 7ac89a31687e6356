// Shape kernels: strided copies and resized images.
#pragma once

#include <array>

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

// Element (i0, i1, …) lies at offset + Σ ik·stride[k], in elements. Strides may be 0 (broadcast) or negative
// (flip).
struct StridedView {
  Index offset = 0;
  std::array<Index, kMaxRank> strides{};
};

struct ShapeKernels {
  virtual ~ShapeKernels() = default;

  // y[to(i)] = x[from(i)] for every i in `extents`; the positions to(i) are distinct. Both have the same
  // dtype, except that an accumulating copy may mix floating dtypes.
  virtual void strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                            const Shape& extents, bool accumulate = false) = 0;
  // x [N,H,W,C] to y [N,H',W',C].
  virtual void resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) = 0;
  virtual void resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) = 0;
};

}  // namespace tandem
