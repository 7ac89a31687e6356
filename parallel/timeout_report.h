// Who is to blame when a rank has waited in vain, and the words for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/rank_error.h"
#include "parallel/rank_status.h"

namespace tandem::parallel {

// Where the waiting rank is.
struct Waiting {
  int rank = 0, size = 1;
  Call call = Call::none;
  std::uint64_t number = 0;  // of the call
  double waited_s = 0;
};

// Ascending; empty when every rank has come and looks after its communication. `arrivals` are of ranks that
// could be seen or that answered, in any order; the one that waits may be among them, and is never to blame.
//
// A rank looks after communication a thousand times a second while it waits. So of those that have not ended
// the call, it is they who are silent for a second, stopped, gone, or neither seen nor heard; those that look
// and have not come wait for somebody themselves. Where no rank is silent, those that have not come are:
// ranks that make different calls wait for each other. At the start, and while MPI is closed, all are inside
// of MPI, and nobody looks.
std::vector<int> ranks_to_blame(std::span<const RankStatus> arrivals, const Waiting& waiting);

// "[all_reduce 17] rank 2 (process 4711 on node1, stopped) did not come: rank 0 waited for 1:00. …", with the
// way out. hosts[r] is the name of the host of rank r, or empty.
RankError absence(std::span<const RankStatus> arrivals, const Waiting& waiting,
                  std::span<const std::string> hosts);

}  // namespace tandem::parallel
