// Attention masks for kernels: see core/kernels/attention.h.
#pragma once

#include <cuda_runtime.h>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/lengths.h"
#include "core/cuda/numeric.h"
#include "core/kernels/attention.h"
#include "core/op_options.h"

namespace tandem::cuda {

struct CudaAttention final : GpuKernels<AttentionKernels> {
  using GpuKernels::GpuKernels;

  void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) override;
  void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                               const Tensor& dx) override;
  void additive_attention(const AdditiveForward& args) override;
  void additive_attention_backward(const AdditiveBackward& args) override;
};

struct SeenKeys {
  const Index* lengths;  // null: no mask
  bool causal;
  Index queries, keys;

  __device__ __forceinline__ Index operator()(Index n, Index t) const {
    const Index length = lengths != nullptr ? lengths[n] : keys;
    if (!causal) return length;
    const Index last = t + 1 + keys - queries;
    return last < 0 ? 0 : last < length ? last : length;
  }
};

inline SeenKeys seen_keys_of(const AttentionMask& mask, const Tensor& lengths, Index queries, Index keys) {
  return {data_or_null<Index>(lengths), mask.causal, queries, keys};
}

}  // namespace tandem::cuda
