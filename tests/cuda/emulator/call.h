// Scope of every function of the CUDA interface: takes the lock, and records its error for cudaGetLastError.
#pragma once

#include <string>
#include <string_view>

#include "tests/cuda/emulator/control.h"
#include "tests/cuda/emulator/stream.h"

namespace cuda_emulator {

Counts& counters();
// Called once by every function that fail_call supports.
bool is_to_fail(std::string_view function);
int next_event_denials();                    // see set_event_denials
int algorithm_count();                       // see set_algorithms
const std::string& compiled_algorithm();     // see set_compiled_algorithm
double seconds_of(const std::string& work);  // duration of library work; see set_seconds
cudaError_t& last_error();                   // of this thread

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
