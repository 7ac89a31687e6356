// Test interface of the emulator: counters and settings. Counters start with the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#define CUDA_EMULATOR_EXPORT __attribute__((visibility("default")))

namespace cuda_emulator {

struct Counts {
  std::uint64_t host_waits = 0;      // calls that block the host, or may do so on a GPU
  std::uint64_t launches = 0;        // kernels enqueued or recorded in a graph
  std::uint64_t early_launches = 0;  // launches with early start
  std::uint64_t executed = 0;        // kernels executed, including those of graphs
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes = 0;  // kernels, copies and fills of all instantiated graphs
  // Convolutions enqueued with fused sums, or with accumulation.
  std::uint64_t summing_convolutions = 0, adding_convolutions = 0;
  std::uint64_t library_attentions = 0;  // attention enqueued by the stand-in
  // 16-bit products enqueued with rows of an operand, or of a 16-bit result, not aligned to 16 bytes.
  std::uint64_t unaligned_products = 0;
  std::uint64_t allocations = 0;  // calls of cudaMalloc
  std::uint64_t host_allocations = 0;
  std::size_t device_bytes = 0;     // currently allocated
  std::uint64_t bytes_to_host = 0;  // copied from the device to pageable memory
};
CUDA_EMULATOR_EXPORT Counts counts();

// Sets the size of device memory in bytes, including current allocations. cudaMalloc fails beyond it.
CUDA_EMULATOR_EXPORT void set_device_memory(std::size_t bytes);
// Makes the n-th call of a function from now on fail; 0: none. Supported are cudaMalloc, cudaGraphInstantiate
// and cudaGraphLaunch (out of memory), and cudaMemcpyAsync (unknown error).
CUDA_EMULATOR_EXPORT void fail_call(const char* function, std::uint64_t n);

// Number of times that cudaEventQuery reports an event as not ready before it reports it as ready. Default:
// TANDEM_EMULATOR_DENIALS, one number for all events or several used in turn; or 1.
CUDA_EMULATOR_EXPORT void set_event_denials(int denials);

// By number: 0 forward, 1 reverse, 2 shuffled (block.h).
CUDA_EMULATOR_EXPORT void set_execution_order(int order);

// Makes the stand-ins reject what the libraries reject for many shapes: a bias or accumulation in 16-bit
// products; a bias, sums, accumulation, or an f32 result of 16-bit operands in convolutions. Default:
// TANDEM_EMULATOR_NARROW.
CUDA_EMULATOR_EXPORT void set_narrow_libraries(bool narrow);

// Makes fused sums of convolutions wrong, accumulating convolutions add twice, and attention wrong.
CUDA_EMULATOR_EXPORT void set_wrong_fusions(bool wrong);

// Whether the stand-in offers attention from now on; else, by default, the own kernels compute it.
CUDA_EMULATOR_EXPORT void set_attention_offered(bool offered);

// Number of algorithms per problem, named "emulated-1", "emulated-2" and so on. Default:
// TANDEM_EMULATOR_ALGORITHMS, or 1.
CUDA_EMULATOR_EXPORT void set_algorithms(int count);
// The algorithm that is compiled per shape; nullptr (default): none.
CUDA_EMULATOR_EXPORT void set_compiled_algorithm(const char* name);
// Events measure real time plus 1 second per kernel, 10 per work item of a library, 15 per product, and 1 for
// each algorithm after the first. This sets the time of library work to `seconds` per `part` in its
// description, e.g. "matmul", "→ f32" or "emulated-2", and to `cold` if the preceding work wrote as much
// memory as L2 holds. A null part restores the default.
CUDA_EMULATOR_EXPORT void set_seconds(const char* part, double seconds, double cold);

// For stand-ins outside the emulator: enqueues work that involves other processes on a stream (cudaStream_t),
// or adds it to the stream's capture. At its turn, and at every replay, `begin` is called; it returns a
// function that makes progress and returns whether the work is complete. Returns false if the stream does not
// accept work.
CUDA_EMULATOR_EXPORT bool put_on_stream(void* stream, std::function<std::function<bool()>()> begin);
// Whether [address, address + bytes) lies in one allocation of device memory.
CUDA_EMULATOR_EXPORT bool is_device_memory(const void* address, std::size_t bytes);

// Executes work when it is enqueued, not when something waits for it, so that a fault has the stack of the
// causing call. Default: TANDEM_EMULATOR_EAGER.
CUDA_EMULATOR_EXPORT void set_eager(bool eager);

}  // namespace cuda_emulator
