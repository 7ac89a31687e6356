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

// Whether kernels may start early: every GPU is a Hopper or later. TANDEM_EARLY_START=0 forbids it, to
// compare.
bool starts_early();

// Launches on a stream; the arguments are converted to the kernel's parameter types. `name` is for the error.
template <class... Parameters, class... Arguments>
void launch(std::string_view name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

// As `launch`, of a kernel whose threads call `await_earlier_work` first: it may be started while the kernel
// before it on the stream still runs (programmatic dependent launch), which hides the time of a start.
template <class... Parameters, class... Arguments>
void launch_early(std::string_view name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                  std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, &early, starts_early() ? 1u : 0u};
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

#if defined(__CUDACC__) || defined(TANDEM_CUDA_EMULATED)
// Waits until everything before this kernel on its stream is done and can be read, and lets the kernel after
// it start. Every thread calls it before it reads or writes memory and before it ends: a kernel that ends
// early would tell its successor that the kernels before it have ended, too.
__device__ __forceinline__ void await_earlier_work() {
#if defined(TANDEM_CUDA_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

}  // namespace tandem::cuda
