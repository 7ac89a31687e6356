// Checks of the program of several ranks: the first failure ends all ranks.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/launch.h"

namespace tandem::test {

inline constexpr double kDeadline = 60;  // seconds; nothing here should come near

// Throws with the place and what was compared unless `holds`.
template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw std::runtime_error("failed: " + fmt::format(format, std::forward<Args>(args)...));
}

struct Arguments {
  std::string mode;
  int rank = 0;  // that something happens to
  double deadline_s = kDeadline;
  parallel::CommunicatorOptions options;  // --own-hosts, --mpi-sums, --piece BYTES
};

// Each mode of the program.
void check_collectives(parallel::Communicator& ranks);
void check_overlap(parallel::Communicator& ranks);
void check_shards(parallel::Communicator& ranks);
void check_exchange(parallel::Communicator& ranks);
void check_parts(parallel::Communicator& ranks);
void check_peers(parallel::Communicator& ranks);
void check_large(parallel::Communicator& ranks);
void measure_speed(parallel::Communicator& ranks);
// Something happens to one rank, and the others notice by the end of their deadline.
void meet_a_fault(parallel::Communicator& ranks, const Arguments& arguments);

}  // namespace tandem::test
