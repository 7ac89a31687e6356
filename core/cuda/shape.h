// Shape kernels on a GPU: shared by the sources of the family.
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/kernels/shape.h"

namespace tandem::cuda {

struct CudaShape final : GpuKernels<ShapeKernels> {
  using GpuKernels::GpuKernels;

  void strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                    const Shape& extents, bool accumulate) override;
  void resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) override;
  void resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) override;
};

}  // namespace tandem::cuda
