// Timeout report: the ranks to blame, and the message.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/rank_error.h"
#include "parallel/rank_status.h"

namespace tandem::parallel {

// State of the waiting rank.
struct Waiting {
  int rank = 0, size = 1;
  Call call = Call::none;
  std::uint64_t number = 0;  // of the call
  double waited_s = 0;
};

// Ascending; empty when every rank takes part and makes progress. `arrivals` are records of reachable ranks,
// in any order; the waiting rank may be among them, and is never to blame.
//
// A waiting rank records progress a thousand times a second. So among ranks that have not finished the call,
// those are to blame that were silent for a second, stopped, gone, or unreachable; ranks that record progress
// are waiting themselves. If no rank is silent, the ranks that have not reached the call are to blame: ranks
// with different calls wait for each other. At the start, and while MPI is closed, all ranks are inside of
// MPI without progress.
std::vector<int> ranks_to_blame(std::span<const RankStatus> arrivals, const Waiting& waiting);

// "[all_reduce 17] rank 2 (process 4711 on node1, stopped) did not come: rank 0 waited for 1:00. …", with the
// way out. hosts[r] is the name of rank r's host, or empty.
RankError absence(std::span<const RankStatus> arrivals, const Waiting& waiting,
                  std::span<const std::string> hosts);

}  // namespace tandem::parallel
