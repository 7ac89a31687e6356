// Softmax kernels on a GPU: shared by the sources of the family.
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/kernels/softmax.h"

namespace tandem::cuda {

struct CudaSoftmax final : GpuKernels<SoftmaxKernels> {
  using GpuKernels::GpuKernels;

  void softmax(const Tensor& x, int axis, bool log, const Tensor& y) override;
  void softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                     const CrossEntropyOptions& options, const Tensor& loss, const Tensor& row_weight,
                     const Tensor& lse) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                              const CrossEntropyOptions& options, const Tensor& lse, const Tensor& dloss,
                              const Tensor& dlogits) override;
  void dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                 const Tensor& sums) override;
  void dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                     const Tensor& slopes, const Tensor& dlogits) override;
};

}  // namespace tandem::cuda
