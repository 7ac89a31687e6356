// Shape kernels of one level: shared by the sources of the family.
#pragma once

#include "core/kernels/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuShape final : ShapeKernels {
  void strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                    const Shape& extents, bool accumulate) override;
  void resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) override;
  void resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) override;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
