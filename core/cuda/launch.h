// Kernel launches: error checks and grid sizes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <concepts>
#include <string_view>
#include <utility>

#include "core/shape.h"

namespace tandem::cuda {

// Throws VendorError "[cuda] CALL: name: text" unless `status` is success.
void check(cudaError_t status, std::string_view call);

inline constexpr Index kProcessors = 132;  // multiprocessors of the GPU that grids are sized for, an H100
inline constexpr int kThreads = 256;       // default threads per block

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// Number of blocks for a grid-stride loop over `count` elements: enough to fill any GPU, few enough to
// amortise the setup of a block.
inline unsigned blocks_for(Index count, Index per_block = kThreads) {
  constexpr Index kMost = kProcessors * 16;
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(count, per_block), 1, kMost));
}

// Whether programmatic dependent launch is used: all GPUs are Hopper or later, and TANDEM_EARLY_START is not
// 0.
bool starts_early();

// Extent of a grid.
struct Extent : dim3 {
  Extent(dim3 extent) : dim3(extent) {}
  template <std::integral T>
  Extent(T count) : dim3(static_cast<unsigned>(count)) {}
};

// Threads of a block, and the bytes of its dynamic shared memory.
struct Block : Extent {
  using Extent::Extent;
  template <std::integral T>
  Block(T threads, std::size_t bytes) : Extent(threads), shared_bytes(bytes) {}

  std::size_t shared_bytes = 0;
};

// Launches on a stream; arguments are converted to the kernel's parameter types. `name` appears in errors.
template <class... Parameters, class... Arguments>
void launch(std::string_view name, void (*kernel)(Parameters...), Extent grid, Block block,
            cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const cudaLaunchConfig_t config{grid, block, block.shared_bytes, stream, nullptr, 0};
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

// Like `launch`, for kernels whose threads call `await_earlier_work` first. They may start while the previous
// kernel of the stream still runs (programmatic dependent launch), which hides the launch latency.
template <class... Parameters, class... Arguments>
void launch_early(std::string_view name, void (*kernel)(Parameters...), Extent grid, Block block,
                  cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{grid, block, block.shared_bytes, stream, &early, starts_early() ? 1u : 0u};
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

#if defined(__CUDACC__) || defined(TANDEM_CUDA_EMULATED)
// Waits until all earlier work of the stream is complete and visible, and lets the next kernel start. Every
// thread must call it before its first memory access and before it exits: an early exit would signal the next
// kernel that earlier kernels are complete.
__device__ __forceinline__ void await_earlier_work() {
#if defined(TANDEM_CUDA_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

}  // namespace tandem::cuda
