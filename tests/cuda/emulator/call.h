// What every function of the interface does: takes the lock, and notes its error for cudaGetLastError.
#pragma once

#include "tests/cuda/emulator/control.h"
#include "tests/cuda/emulator/stream.h"

namespace cuda_emulator {

Counts& counters();
bool is_allocation_refused();  // asked once by every call of cudaMalloc
cudaError_t& last_error();     // of this thread

class Call {
 public:
  Call() : lock_(lock()) {}
  cudaError_t result(cudaError_t error) const {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
    return error;
  }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace cuda_emulator
