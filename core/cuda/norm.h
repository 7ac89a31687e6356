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
  void layer_norm(const RowNormForward& args) override;
  void layer_norm_backward(const RowNormBackward& args) override;
  void residual_norm(const ResidualNormForward& args) override;
  void residual_norm_backward(const ResidualNormBackward& args) override;
  void group_norm(const RowNormForward& args) override;
  void group_norm_backward(const RowNormBackward& args) override;
};

}  // namespace tandem::cuda
