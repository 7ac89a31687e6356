// Stable sorting of pairs, for the families index and topk. In a file of its own, since CUB compiles slowly.
#pragma once

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

struct SortedPairs {
  Tensor keys, values;
};

// Ascending by the lowest `bits` bits of the keys, read as unsigned; equal keys keep their order. Keys and
// values are [count], both i32 or both i64, and their memory is overwritten. Nothing waits for the device.
SortedPairs sort_pairs(const CudaBackend& backend, const Tensor& keys, const Tensor& values, int bits);

}  // namespace tandem::cuda
