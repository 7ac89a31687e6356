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

// Sets batch, m, n, k, transpose_a, transpose_b, stride_a and stride_b of a product.
template <class Product>
void set_extents(Product& p, const Tensor& a, const Tensor& b, const Tensor& c,
                 const MatmulOptions& options) {
  const int ra = a.rank(), rb = b.rank(), rc = c.rank();
  p.transpose_a = options.transpose_a;
  p.transpose_b = options.transpose_b;
  p.m = c.size(rc - 2);
  p.n = c.size(rc - 1);
  p.k = a.size(p.transpose_a ? ra - 2 : ra - 1);
  p.batch = c.shape().product(0, rc - 2);
  p.stride_a = ra > 2 ? p.m * p.k : 0;
  p.stride_b = rb > 2 ? p.k * p.n : 0;
  // One matrix b for a batch of untransposed a: the batch is folded into the rows of a.
  if (p.stride_b == 0 && !p.transpose_a && p.batch > 1 && ra > 2) {
    p.m *= p.batch;
    p.batch = 1;
    p.stride_a = 0;
  }
}

}  // namespace tandem
