// Recurrent layers: copying row lengths to the device.
#include <algorithm>

#include "core/cuda/capture.h"
#include "core/cuda/rnn.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

constexpr int kLengths = 440;  // per launch, so that all arguments stay below 4 KB

struct LengthChunk {
  Index count, value[kLengths];
};

__global__ void rnn_lengths_kernel(LengthChunk chunk, Index* to) {
  for (Index i = threadIdx.x; i < chunk.count; i += blockDim.x) to[i] = chunk.value[i];
}

}  // namespace

RnnSteps::RnnSteps(CudaBackend& backend, const RnnOptions& options, const RnnSizes& sizes)
    : steps_(sizes.steps), reverse_(options.reverse) {
  if (!options.lengths.defined()) return;
  refuse_to_record_lengths(backend.stream(), name_of(options.cell));
  lengths_ = backend.workspace({sizes.rows}, DType::i64);
  const Index* from = options.lengths.data<Index>();
  for (Index first = 0; first < sizes.rows; first += kLengths) {
    LengthChunk chunk;
    chunk.count = std::min<Index>(kLengths, sizes.rows - first);
    std::copy_n(from + first, chunk.count, chunk.value);
    launch("rnn", rnn_lengths_kernel, 1, kThreads, 0, backend.stream(), chunk,
           lengths_.data<Index>() + first);
  }
}

}  // namespace tandem::cuda
