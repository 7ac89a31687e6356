#include "core/cuda/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/cuda/launch.h"

namespace tandem::cuda {

std::string CudaLink::identity() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
  return fmt::format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID,
                     properties.pciDeviceID);
}

void CudaLink::select() { check(cudaSetDevice(index_), "cudaSetDevice"); }

void* CudaLink::stream() {
  if (stream_) return stream_;
  // Communication gets the highest priority, because other ranks wait for it.
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
        "cudaStreamCreateWithPriority");
  for (cudaEvent_t* event : {&forked_, &joined_})
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return stream_;
}

void CudaLink::fork() {
  stream();
  check(cudaEventRecord(forked_, backend_.stream()), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream_, forked_, 0), "cudaStreamWaitEvent");
}

void CudaLink::join() {
  stream();
  check(cudaEventRecord(joined_, stream_), "cudaEventRecord");
  check(cudaStreamWaitEvent(backend_.stream(), joined_, 0), "cudaStreamWaitEvent");
}

// ---- Waiting on the host

void CudaBackend::wait_for_stream() {
  if (!look_) return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check(cudaEventRecord(awaited_, stream_), "cudaEventRecord");
  wait_for(awaited_);
}

void CudaBackend::wait_for(cudaEvent_t event) {
  if (!look_) return check(cudaEventSynchronize(event), "cudaEventSynchronize");
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kLongestGap{1.0};  // between polls; a longer gap means that this process was suspended
  constexpr std::chrono::microseconds kPause{50};
  constexpr int kBusyLooks = 100;
  Seconds waited{0};
  Clock::time_point looked = Clock::now();
  for (int looks = 0;; ++looks) {
    const cudaError_t status = cudaEventQuery(event);
    if (status != cudaErrorNotReady) return check(status, "cudaEventQuery");
    look_(waited.count());
    if (looks < kBusyLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
    const Clock::time_point now = Clock::now();
    waited += std::min<Seconds>(now - looked, kLongestGap);
    looked = now;
  }
}

}  // namespace tandem::cuda
