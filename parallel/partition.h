// Partition of a sequence among ranks, by core/partition.h.
#pragma once

#include <cstddef>
#include <vector>

#include "core/partition.h"

namespace tandem::parallel {

// The part of `rank`.
inline Range part_of_rank(std::size_t count, int ranks, int rank) {
  return part_of(count, static_cast<std::size_t>(ranks), static_cast<std::size_t>(rank));
}

// The size of each rank's part.
inline std::vector<std::size_t> counts_of_ranks(std::size_t count, int ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    counts[static_cast<std::size_t>(rank)] = part_of_rank(count, ranks, rank).count();
  return counts;
}

}  // namespace tandem::parallel
