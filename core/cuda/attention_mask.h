// Attention masks for kernels: see core/kernels/attention.h.
#pragma once

#include <cuda_runtime.h>

#include "core/cuda/cuda_backend.h"
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
  const std::int32_t* lengths;  // null: no mask
  bool causal;
  Index queries, keys;

  __device__ __forceinline__ Index operator()(Index n, Index t) const {
    const Index length = lengths != nullptr ? lengths[n] : keys;
    if (!causal) return length;
    const Index last = t + 1 + keys - queries;
    return last < 0 ? 0 : last < length ? last : length;
  }
};

// Lengths in device memory, i32 [N]; undefined if the mask has none. They are passed as kernel arguments, so
// nothing waits. Throws VendorError in a recording, which would keep the lengths of its batch.
Tensor lengths_on_device(const CudaBackend& backend, const AttentionMask& mask);

inline SeenKeys seen_keys_of(const AttentionMask& mask, const Tensor& lengths, Index queries, Index keys) {
  return {lengths.defined() ? lengths.data<std::int32_t>() : nullptr, mask.causal, queries, keys};
}

}  // namespace tandem::cuda
