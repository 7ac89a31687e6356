// Waiting policy of threads: of parallel loops (core/cpu/parallel.h), and of OpenMP's within oneDNN.
#pragma once

#include <chrono>
#include <string>

namespace tandem::cpu {

// Spin time of a waiting thread before it sleeps. Within a step on idle cores few waits are longer. On busy
// cores longer spinning takes CPU time from the thread that is waited for.
inline constexpr double kSpinMicroseconds = 50.0;

// This process's policy: "spin 50 us, then sleep"; a variable, e.g. "OMP_WAIT_POLICY=passive"; or "as OpenMP
// does by default" (within oneDNN, threads spin for milliseconds) in a program without core/cpu/short_spin.cpp.
std::string waiting();

// Spin time in parallel loops: kSpinMicroseconds; 0 with OMP_WAIT_POLICY=passive or GOMP_SPINCOUNT=0; a
// minute with OMP_WAIT_POLICY=active.
std::chrono::nanoseconds spin_time();

// Called by short_spin.cpp after it has set the policy.
void spins_briefly();

}  // namespace tandem::cpu
