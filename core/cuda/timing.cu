// Time marks, as events on the stream; ranges, as NVTX knows them.
#include <cuda_runtime.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAS_NVTX 1
#endif

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda {

std::uint64_t CudaBackend::time_mark() {
  ensure(!recording_, "cuda", "a time mark in a recording measures nothing");
  if (time_marks_ == timing_events_.size()) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    timing_events_.push_back(event);
  }
  check(cudaEventRecord(timing_events_[time_marks_], stream_), "cudaEventRecord");
  return time_marks_++;
}

double CudaBackend::seconds_between(std::uint64_t first, std::uint64_t last) {
  ensure(first < time_marks_ && last < time_marks_, "cuda", "time marks {} and {} of {}", first, last,
         time_marks_);
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
