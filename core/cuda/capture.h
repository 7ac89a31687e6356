// While a stream is captured: what a graph would repeat wrongly, and work of libraries.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda {

inline bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

inline constexpr std::string_view kWithoutRecording =
    "cuda_graph=auto or cuda_graph=off does such steps without one";

// Throws VendorError in a recording: lengths of rows lie in host memory and go with the arguments of kernels,
// so that it would keep those of its batch.
inline void refuse_to_record_lengths(cudaStream_t stream, std::string_view op) {
  if (is_captured(stream))
    throw VendorError(
        op, fmt::format("lengths of rows are host memory, which a CUDA graph would not read again; {}",
                        kWithoutRecording));
}

// What would be illegal while a stream of any thread is captured is legal as long as this lives: a library's
// own allocations and the code it loads, which no captured work depends on.
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
