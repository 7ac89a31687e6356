// Matrix product kernels.
#pragma once

#include "core/tensor.h"

namespace tandem {

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
};

struct MatmulKernels {
  virtual ~MatmulKernels() = default;

  // c[…,M,N] = op(a)·op(b) (+ bias[N]); a and b are [M,K] and [K,N] after their transposition and may carry
  // leading batch axes that are equal or absent.
  virtual void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                      const MatmulOptions& options) = 0;
};

}  // namespace tandem
