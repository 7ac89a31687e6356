// Executes a kernel: its blocks one after the other, the threads of a block as fibres.
//
// A thread runs until it waits at a barrier or for the lanes of its warp. The order in which threads, warps
// and blocks are taken is a choice of `Order`; results that depend on it show a barrier that is missing.
// Misuse ends the process with what each thread waits for: a barrier that not all threads of the block reach,
// or reach in different lines; lanes that name each other and meet in different lines or under different
// masks; a lane's value asked for that the lane does not bring.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace cuda_emulator {

enum class Order { forward, reverse, shuffled };

// The order from now on; at first what TANDEM_EMULATOR_ORDER says, or forward.
void set_order(Order order);
Order order();

// A permutation of 0 … count-1 by the order at hand; another one at every call when it is `shuffled`.
void arrange(std::size_t count, std::vector<unsigned>& positions);

// `thread` is what every thread runs.
void execute(const Launch& launch, const std::function<void()>& thread);

// Prints the message and where the emulated thread is, and aborts.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cuda_emulator
