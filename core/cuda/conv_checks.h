// Verification of fused convolutions on the actual data. Each check synchronises with the device.
#pragma once

#include <optional>

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

// Whether a sum computed in place has the bits of the same sum computed separately; nullopt if no finite sum
// differs from the addend, so that the data proves nothing. All tensors are f16, all bf16, or all f32.
std::optional<bool> same_sums(CudaBackend& backend, const Tensor& in_place, const Tensor& apart,
                              const Tensor& addend);

// Whether `sums`, f32 [2,C] of Σ y and Σ y², match the mean and standard deviation of the channels of y
// [N,H,W,C] within a hundredth of the deviation, where y is finite and not zero; nullopt if it is nowhere.
// cuDNN may sum before rounding y.
std::optional<bool> sums_are_right(CudaBackend& backend, const Tensor& y, const Tensor& sums);

}  // namespace tandem::cuda
