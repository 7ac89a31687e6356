// Checks and modes for work during CUDA stream capture.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/cuda/launch.h"

namespace tandem::cuda {

inline bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

inline constexpr std::string_view kWithoutRecording =
    "cuda_graph=auto or cuda_graph=off runs such steps without a graph";

// Permits calls that stream capture forbids (of any thread), during its lifetime: a library's own allocations
// and code loading, on which no captured work depends.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace tandem::cuda
