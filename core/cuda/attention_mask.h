// Attention masks for kernels: see core/kernels/attention.h.
#pragma once

#include <cuda_runtime.h>

#include "core/cuda/attention_plans.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/lengths.h"
#include "core/cuda/numeric.h"
#include "core/kernels/attention.h"
#include "core/op_options.h"

namespace tandem::cuda {

struct CudaAttention final : GpuKernels<AttentionKernels> {
  explicit CudaAttention(CudaBackend& owner) : GpuKernels(owner), plans(owner) {}

  AttentionPlans plans;

  void attention(const AttentionForward& args) override;
  void attention_backward(const AttentionBackward& args) override;
  void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) override;
  void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                               const Tensor& dx) override;
  void additive_attention(const AdditiveForward& args) override;
  void additive_attention_backward(const AdditiveBackward& args) override;
};

// Keys that a query sees: see AttentionMask.
struct SeenKeys {
  const Index *lengths, *documents;  // null: no limit
  bool causal;
  Index window, queries, keys;

  __device__ __forceinline__ KeyRange operator()(Index n, Index t) const {
    const Index length = lengths != nullptr ? lengths[n] : keys;
    if (!causal) return {0, length};
    const Index position = t + keys - queries;
    const Index last = position < 0 ? 0 : position < length ? position + 1 : length;
    Index first = window > 0 && position >= window ? position + 1 - window : 0;
    if (documents != nullptr && position >= 0) first = max(first, documents[n * keys + position]);
    return {min(first, last), last};
  }
};

// The mask in device memory, as kernels take it; the object keeps the memory.
struct MaskOnDevice {
  Tensor lengths, documents;
  SeenKeys seen;

  MaskOnDevice(const CudaBackend& backend, const AttentionMask& mask, Index queries, Index keys)
      : lengths(lengths_on_device(backend, mask.lengths, "attention")),
        documents(lengths_on_device(backend, mask.documents, "attention")),
        seen{data_or_null<Index>(lengths),
             data_or_null<Index>(documents),
             mask.causal,
             mask.window,
             queries,
             keys} {}
};

}  // namespace tandem::cuda
