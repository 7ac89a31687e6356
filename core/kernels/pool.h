// Pooling kernels: images [N,H,W,C].
#pragma once

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

struct PoolKernels {
  virtual ~PoolKernels() = default;

  // `where` [N,H',W',C]: position in the window of the maximum (kh·KW + kw), u8 when the window has at most
  // 256 positions, else i32. NaN counts as largest; padding is never the maximum.
  virtual void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& where,
                          const Pool2dOptions& options) = 0;
  virtual void max_pool2d_backward(const Tensor& dy, const Tensor& where, const Tensor& dx,
                                   const Pool2dOptions& options) = 0;
  // y = the elements of x that `where` chose: the adjoint of max_pool2d_backward, for second derivatives.
  virtual void max_pool2d_select(const Tensor& x, const Tensor& where, const Tensor& y,
                                 const Pool2dOptions& options) = 0;
  virtual void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dOptions& options) = 0;
  virtual void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dOptions& options) = 0;
  // Windows of PyTorch's adaptive pooling: [floor(i·H/H'), ceil((i+1)·H/H')).
  virtual void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) = 0;
  virtual void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace tandem
