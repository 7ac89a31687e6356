// Elementwise kernels: formulas with broadcasting.
#pragma once

#include <span>

#include "core/kernels/formulas.h"
#include "core/tensor.h"

namespace tandem {

struct ElementwiseKernels {
  virtual ~ElementwiseKernels() = default;

  // y[i] = formula(inputs[0][i], …) with NumPy broadcasting of the inputs to y's shape. y may be an input of
  // its shape and dtype.
  virtual void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs,
                         const Tensor& y, bool accumulate = false) = 0;
};

}  // namespace tandem
