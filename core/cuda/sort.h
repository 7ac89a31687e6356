// Stable sorting of pairs, for index and topk. A separate file, because CUB compiles slowly.
#pragma once

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

struct SortedPairs {
  Tensor keys, values;
};

// Sorts in ascending order of the lowest `bits` bits of the keys, as unsigned integers; stable. Keys and
// values are [count], both i32 or both i64, and are overwritten. Asynchronous.
SortedPairs sort_pairs(const CudaBackend& backend, const Tensor& keys, const Tensor& values, int bits);

}  // namespace tandem::cuda
