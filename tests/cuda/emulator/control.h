// Interface by which tests read and steer the emulator. Counts run from the start of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#define CUDA_EMULATOR_EXPORT __attribute__((visibility("default")))

namespace cuda_emulator {

struct Counts {
  std::uint64_t host_waits = 0;      // calls that made the host wait for the device, or may do so on a GPU
  std::uint64_t launches = 0;        // kernels put on a stream or recorded in a graph
  std::uint64_t early_launches = 0;  // those of them that may start before the kernel before them has ended
  std::uint64_t executed = 0;        // kernels executed, those of graphs included
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes = 0;  // of all graphs that were made ready: kernels, copies, fills
  // Convolutions put on a stream that also sum what they write, or add to their result.
  std::uint64_t summing_convolutions = 0, adding_convolutions = 0;
  // Products of 16-bit operands put on a stream, of which rows of one, or of a 16-bit result, do not lie on
  // 16 bytes.
  std::uint64_t unaligned_products = 0;
  std::uint64_t allocations = 0;  // calls of cudaMalloc
  std::uint64_t host_allocations = 0;
  std::size_t device_bytes = 0;     // allocated at the moment
  std::uint64_t bytes_to_host = 0;  // copied from the device to pageable memory
};
CUDA_EMULATOR_EXPORT Counts counts();

// The device's memory in bytes; what is allocated already counts. cudaMalloc fails beyond.
CUDA_EMULATOR_EXPORT void set_device_memory(std::size_t bytes);
// Makes the n-th call of a function from now on fail, 1 being the next; 0: none. The functions are
// cudaMalloc, cudaGraphInstantiate and cudaGraphLaunch, which then lack memory, and cudaMemcpyAsync, which
// fails for an unknown reason.
CUDA_EMULATOR_EXPORT void fail_call(const char* function, std::uint64_t n);

// How often cudaEventQuery says of an event that it is not ready, before it says that it is. At first what
// TANDEM_EMULATOR_DENIALS says, one number for all events or several that they take in turn; or 1, so that
// nobody counts on it.
CUDA_EMULATOR_EXPORT void set_event_denials(int denials);

// By number: 0 forward, 1 reverse, 2 shuffled (block.h).
CUDA_EMULATOR_EXPORT void set_execution_order(int order);

// Makes the stand-ins refuse what the libraries refuse for many shapes: a bias or an addition in 16-bit
// products; a bias, sums, an addition, or an f32 result of 16-bit operands, in convolutions. At first what
// TANDEM_EMULATOR_NARROW says.
CUDA_EMULATOR_EXPORT void set_narrow_libraries(bool narrow);

// Makes convolutions that sum what they write give wrong sums, and those that add where they write add twice.
CUDA_EMULATOR_EXPORT void set_wrong_fusions(bool wrong);

// So many algorithms the stand-ins offer for a problem, "emulated-1", "emulated-2" and so on. At first what
// TANDEM_EMULATOR_ALGORITHMS says, or 1.
CUDA_EMULATOR_EXPORT void set_algorithms(int count);
// The one of them that is compiled for a shape; nullptr, as at first: none.
CUDA_EMULATOR_EXPORT void set_compiled_algorithm(const char* name);
// What events measure is the time it takes, and a second for each kernel, 10 for each piece of work of the
// libraries, 15 for a product, and one more for each algorithm after the first. From now on work of the
// libraries takes `seconds` for each such `part` that its description has, as "matmul", "→ f32" or
// "emulated-2", instead; `cold` ones where as much memory as the second cache holds was written right before.
// Without a part: as at first.
CUDA_EMULATOR_EXPORT void set_seconds(const char* part, double seconds, double cold);

// For a library beside the emulator: puts work on a stream (cudaStream_t), or into its capture, that other
// processes take part in. `begin` is called when its turn has come, at every replay, and gives what helps it
// along: whether it has ended. False where the stream cannot take it.
CUDA_EMULATOR_EXPORT bool put_on_stream(void* stream, std::function<std::function<bool()>()> begin);
// Whether [address, address + bytes) lies in one allocation of device memory.
CUDA_EMULATOR_EXPORT bool is_device_memory(const void* address, std::size_t bytes);

// Executes work when it is put on a stream, and not when something waits for it: a fault then has the stack
// of the call that caused it. At first what TANDEM_EMULATOR_EAGER says.
CUDA_EMULATOR_EXPORT void set_eager(bool eager);

}  // namespace cuda_emulator
