// Executes a kernel: blocks sequentially, the threads of a block as fibres.
//
// A thread runs until it waits at a barrier or for lanes of its warp. `Order` selects the order of threads,
// warps and blocks; results that depend on it reveal a missing barrier. Misuse aborts the process and prints
// the wait of each thread: a barrier that not all threads of the block reach, or reach at different lines;
// lanes that name each other but wait at different lines or with different masks; a shuffle from an absent
// lane.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace cuda_emulator {

enum class Order { forward, reverse, shuffled };

// Sets the order. Default: TANDEM_EMULATOR_ORDER, or forward.
void set_order(Order order);
Order order();

// A permutation of 0 … count-1 in the current order; different at every call for `shuffled`.
void arrange(std::size_t count, std::vector<unsigned>& positions);

// Every thread runs `thread`.
void execute(const Launch& launch, const std::function<void()>& thread);

// Prints the message and the position of the emulated thread, and aborts.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cuda_emulator
