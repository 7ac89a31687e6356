// Starting kernels: errors, and the shape of the grid.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/shape.h"

namespace tandem::cuda {

// Throws VendorError "[cuda] CALL: name: text" unless `status` is success.
void check(cudaError_t status, std::string_view call);

inline constexpr Index kProcessors = 132;  // of the GPU that grids are shaped for, an H100
inline constexpr int kThreads = 256;       // of a block, where nothing speaks for another number

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// Blocks of a kernel that strides over `count` elements by the grid's width: enough to fill any GPU, few
// enough to amortise what a block computes first.
inline unsigned blocks_for(Index count, Index per_block = kThreads) {
  constexpr Index kMost = kProcessors * 16;
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(count, per_block), 1, kMost));
}

// Launches on a stream; the arguments are converted to the kernel's parameter types. `name` is for the error.
template <class... Parameters, class... Arguments>
void launch(std::string_view name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  [&](Parameters... converted) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&converted))..., nullptr};
    check(cudaLaunchKernel(kernel, grid, block, pointers, shared_bytes, stream), name);
  }(std::forward<Arguments>(arguments)...);
}

}  // namespace tandem::cuda
