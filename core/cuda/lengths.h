// Row lengths of sequences in device memory.
#pragma once

#include <string_view>

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

// Copies i64 [N] from host memory; absent if `lengths` is. They are passed as kernel arguments, so nothing
// waits and no host memory is read later. Throws VendorError, which names `op`, in a recording: it would keep
// the lengths of its batch.
Tensor lengths_on_device(const CudaBackend& backend, const Tensor& lengths, std::string_view op);

}  // namespace tandem::cuda
