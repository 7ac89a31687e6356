// Waiting policy of OpenMP threads.
#pragma once

#include <string>

namespace tandem::cpu {

// Spin time of a waiting thread before it sleeps. Within a step on idle cores few waits are longer. On busy
// cores longer spinning takes CPU time from the thread that is waited for.
inline constexpr double kSpinMicroseconds = 50.0;

// This process's policy: "spin 50 us, then sleep"; a variable, e.g. "OMP_WAIT_POLICY=passive"; or "as OpenMP
// does by default" (spins for milliseconds) in a program without core/cpu/short_spin.cpp.
std::string waiting();

// Called by short_spin.cpp after it has set the policy.
void spins_briefly();

}  // namespace tandem::cpu
