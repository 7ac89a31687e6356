// How a thread of the OpenMP team waits for the others.
#pragma once

#include <string>

namespace tandem::cpu {

// A thread that waits spins this long, then sleeps until it is woken. Within a step on quiet cores hardly a
// wait is longer: spinning on gains nothing; on cores that others use as well, it takes the time that the
// thread waited for needs.
inline constexpr double kSpinMicroseconds = 50.0;

// How the team of this process waits: "spin 50 us, then sleep"; what the environment asks for instead, as
// "OMP_WAIT_POLICY=passive"; or "as OpenMP does by default", for milliseconds, in a program without
// core/cpu/short_spin.cpp.
std::string waiting();

// short_spin.cpp has set the above.
void spins_briefly();

}  // namespace tandem::cpu
