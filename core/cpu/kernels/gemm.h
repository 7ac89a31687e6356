// Matrix products by Eigen, for f64 and for products too small for a call of oneDNN.
#pragma once

#include "core/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

// A row-major matrix; `stride`: distance between stored rows. If transposed, it is stored as [columns, rows].
template <class T>
struct Operand {
  const T* data;
  Index stride;
  bool transposed = false;
};

// c[m,n] = a[m,k]·b[k,n], or += if `accumulate`.
void gemm(Index m, Index n, Index k, Operand<double> a, Operand<double> b, double* c, Index stride_c,
          bool accumulate);
void gemm(Index m, Index n, Index k, Operand<float> a, Operand<float> b, float* c, Index stride_c,
          bool accumulate);

}  // namespace tandem::cpu::TANDEM_LEVEL
