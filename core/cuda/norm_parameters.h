// Shared parts of the norms: access to optional arguments by element, and the last stage of the gradients of
// the parameters of layer and group norm (norm_parameters.cu).
#pragma once

#include "core/cuda/cuda_backend.h"
#include "core/cuda/numeric.h"

namespace tandem::cuda {

template <class T>
__device__ __forceinline__ T element(const Slot& slot, Index i, T absent) {
  return slot.data != nullptr ? load_any<T>(slot.data, slot.dtype, i) : absent;
}
template <class T>
__device__ __forceinline__ void set_element(const Slot& slot, Index i, T value, bool accumulate = false) {
  if (slot.data == nullptr) return;
  if (accumulate) value += load_any<T>(slot.data, slot.dtype, i);
  store_any(slot.data, slot.dtype, i, value);
}

// dgamma and dbeta, either of them optional, from partial [parts, 2, width] of f32 or f64, summed in f64 in a
// fixed order.
template <class T>
void finish_parameters(const T* partial, Index parts, Index width, const Tensor& dgamma, const Tensor& dbeta,
                       cudaStream_t stream);

}  // namespace tandem::cuda
