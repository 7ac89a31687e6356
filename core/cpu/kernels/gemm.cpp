#include "core/cpu/kernels/gemm.h"

// GCC 12 reports the undefined upper halves in its own AVX-512 intrinsics as uninitialised (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <Eigen/Core>

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Strided = Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>>;
template <class T>
using ConstStrided = Eigen::Map<const Matrix<T>, 0, Eigen::OuterStride<>>;

template <class C, class A, class B>
void multiply(C& c, const A& a, const B& b, bool accumulate) {
  if (accumulate) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

template <class T>
void product(Index m, Index n, Index k, Operand<T> a, Operand<T> b, T* c, Index stride_c, bool accumulate) {
  if (m == 0 || n == 0) return;
  Strided<T> out(c, m, n, Eigen::OuterStride<>(stride_c));
  if (k == 0) {
    if (!accumulate) out.setZero();
    return;
  }
  const ConstStrided<T> left(a.data, a.transposed ? k : m, a.transposed ? m : k,
                             Eigen::OuterStride<>(a.stride));
  const ConstStrided<T> right(b.data, b.transposed ? n : k, b.transposed ? k : n,
                              Eigen::OuterStride<>(b.stride));
  if (a.transposed && b.transposed) {
    multiply(out, left.transpose(), right.transpose(), accumulate);
  } else if (a.transposed) {
    multiply(out, left.transpose(), right, accumulate);
  } else if (b.transposed) {
    multiply(out, left, right.transpose(), accumulate);
  } else {
    multiply(out, left, right, accumulate);
  }
}

}  // namespace

void gemm(Index m, Index n, Index k, Operand<double> a, Operand<double> b, double* c, Index stride_c,
          bool accumulate) {
  product(m, n, k, a, b, c, stride_c, accumulate);
}

void gemm(Index m, Index n, Index k, Operand<float> a, Operand<float> b, float* c, Index stride_c,
          bool accumulate) {
  product(m, n, k, a, b, c, stride_c, accumulate);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
