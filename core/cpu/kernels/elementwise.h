// Elementwise kernels on a CPU: formulas (elementwise.cpp), and pairs of columns (elementwise_pairs.cpp).
#pragma once

#include "core/cpu/kernels/cpu_backend.h"
#include "core/kernels/elementwise.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuElementwise final : ElementwiseKernels {
  void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs, const Tensor& y,
                 bool accumulate) override;
  void rotate(const Tensor& x, const Rotation& rotation, const Tensor& y) override;
  void swiglu(const Tensor& x, const Tensor& y) override;
  void swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
