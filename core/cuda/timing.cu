// Timestamps by events on the stream, and NVTX ranges.
#include <cuda_runtime.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAS_NVTX 1
#endif

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda {

std::uint64_t CudaBackend::timestamp() {
  ensure(!recording_, "cuda", "timestamps cannot be recorded");
  if (timestamps_ == timing_events_.size()) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    timing_events_.push_back(event);
  }
  check(cudaEventRecord(timing_events_[timestamps_], stream_), "cudaEventRecord");
  return timestamps_++;
}

double CudaBackend::seconds_between(std::uint64_t first, std::uint64_t last) {
  ensure(first < timestamps_ && last < timestamps_, "cuda", "timestamps {} and {} are not below {}", first,
         last, timestamps_);
  check(cudaEventSynchronize(timing_events_[first]), "cudaEventSynchronize");
  check(cudaEventSynchronize(timing_events_[last]), "cudaEventSynchronize");
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, timing_events_[first], timing_events_[last]),
        "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

#ifdef TANDEM_HAS_NVTX
void CudaBackend::begin_range(const char* name) { nvtxRangePushA(name); }
void CudaBackend::end_range() { nvtxRangePop(); }
#else
void CudaBackend::begin_range(const char*) {}
void CudaBackend::end_range() {}
#endif

}  // namespace tandem::cuda
