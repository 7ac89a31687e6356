// Checks of the program of ranks on GPUs: the first failure ends all ranks.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "parallel/device_communicator.h"

namespace tandem::test {

// Throws with what was compared unless `holds`.
template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw std::runtime_error("failed: " + fmt::format(format, std::forward<Args>(args)...));
}

struct Joined {
  parallel::Communicator& ranks;
  parallel::DeviceCommunicator& devices;
  double deadline_s;
};

// Each mode of the program.
void check_collectives(const Joined& joined);
void check_recorded_collectives(const Joined& joined);
void check_steps(const Joined& joined);
void check_recorded_steps(const Joined& joined);
// Collectives without an end; a test sees to it that one of them does not end.
void reduce_for_ever(const Joined& joined);
// Rank 0 does another collective than the rest.
void do_different_things(const Joined& joined);
// Microseconds of an all-reduce of several sizes, printed by rank 0.
void measure(const Joined& joined);

}  // namespace tandem::test
