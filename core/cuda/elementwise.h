// Elementwise kernels on a GPU: formulas (elementwise.cu), and pairs of columns (elementwise_pairs.cu).
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/kernels/elementwise.h"

namespace tandem::cuda {

struct CudaElementwise final : GpuKernels<ElementwiseKernels> {
  using GpuKernels::GpuKernels;

  void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs, const Tensor& y,
                 bool accumulate) override;
  void rotate(const Tensor& x, const Rotation& rotation, const Tensor& y) override;
  void swiglu(const Tensor& x, const Tensor& y) override;
  void swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override;
};

}  // namespace tandem::cuda
