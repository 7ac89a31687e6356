// Checks of fused convolutions when they are tried out, on the data at hand. Each waits for the device.
#pragma once

#include <optional>

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

// Whether a sum done in place has the bits of the same sum done apart; nullopt if no finite sum differs from
// the addend, so that nothing is known. All of one dtype: f16, bf16 or f32.
std::optional<bool> same_sums(CudaBackend& backend, const Tensor& in_place, const Tensor& apart,
                              const Tensor& addend);

// Whether `sums`, f32 [2,C] of Σ y and Σ y², give the mean and the deviation of y's [N,H,W,C] channels, to a
// hundredth of the deviation, wherever y is finite and not zero; nullopt if it is nowhere. cuDNN may sum
// before it rounds y.
std::optional<bool> sums_are_right(CudaBackend& backend, const Tensor& y, const Tensor& sums);

}  // namespace tandem::cuda
