// Reduce kernels on a GPU: shared by the sources of the family.
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/kernels/reduce.h"

namespace tandem::cuda {

struct CudaReduce final : GpuKernels<ReduceKernels> {
  using GpuKernels::GpuKernels;

  void reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y, bool accumulate) override;
  void cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) override;
};

}  // namespace tandem::cuda
