// Norm kernels on a GPU: shared by the sources of the family.
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/kernels/norm.h"

namespace tandem::cuda {

struct CudaNorm final : GpuKernels<NormKernels> {
  using GpuKernels::GpuKernels;

  void batch_norm_train(const BatchNormForward& args) override;
  void batch_norm_infer(const BatchNormForward& args) override;
  void batch_norm_backward(const BatchNormBackward& args) override;
  void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                  const Tensor& mean, const Tensor& rstd) override;
  void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                           const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta) override;
  void group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd) override;
  void group_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                           Index groups, const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta) override;
};

}  // namespace tandem::cuda
