#include <algorithm>

#include "core/cuda/capture.h"
#include "core/cuda/launch.h"
#include "core/cuda/lengths.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

constexpr int kLengths = 440;  // per launch, so that all arguments stay below 4 KB

struct LengthChunk {
  Index count, value[kLengths];
};

__global__ void store_lengths_kernel(LengthChunk chunk, Index* to) {
  for (Index i = threadIdx.x; i < chunk.count; i += blockDim.x) to[i] = chunk.value[i];
}

}  // namespace

Tensor lengths_on_device(const CudaBackend& backend, const Tensor& lengths, std::string_view op) {
  if (!lengths.defined()) return {};
  if (is_captured(backend.stream()))
    throw VendorError(
        op, fmt::format("row lengths are in host memory, which a replayed CUDA graph does not read; {}",
                        kWithoutRecording));
  const Index rows = lengths.numel();
  const Tensor result = backend.workspace({rows}, DType::i64);
  for (Index first = 0; first < rows; first += kLengths) {
    LengthChunk chunk;
    chunk.count = std::min<Index>(kLengths, rows - first);
    std::copy_n(lengths.data<Index>() + first, chunk.count, chunk.value);
    launch(op, store_lengths_kernel, 1, kThreads, backend.stream(), chunk, result.data<Index>() + first);
  }
  return result;
}

}  // namespace tandem::cuda
