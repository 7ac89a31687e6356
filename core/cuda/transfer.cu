// Copies from page-locked host memory, concurrent with computation.
#include <cuda_runtime.h>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"

namespace tandem::cuda {

void CudaBackend::upload(const Tensor& x, const Tensor& y, std::uint64_t after) {
  if (x.bytes() == 0) return;
  if (!event_done(after))
    check(cudaStreamWaitEvent(upload_stream_, events_[after % kEvents], 0), "cudaStreamWaitEvent");
  check(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), cudaMemcpyHostToDevice, upload_stream_),
        "cudaMemcpyAsync");
  check(cudaEventRecord(uploaded_, upload_stream_), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream_, uploaded_, 0), "cudaStreamWaitEvent");
}

}  // namespace tandem::cuda
