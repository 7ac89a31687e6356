// How things in a row are divided among ranks: whole, in order, and as evenly as can be.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem::parallel {

struct Range {
  std::size_t first = 0, last = 0;  // first ≤ i < last

  std::size_t count() const { return last - first; }
  bool operator==(const Range&) const = default;
};

// The part of `rank`: the first (count mod ranks) of them have one more than the others; parts may be empty.
inline Range part_of_rank(std::size_t count, int ranks, int rank) {
  const auto parts = static_cast<std::size_t>(ranks), part = static_cast<std::size_t>(rank);
  const std::size_t each = count / parts, more = count % parts;
  const std::size_t first = part * each + (part < more ? part : more);
  return {first, first + each + (part < more ? 1 : 0)};
}

// How many belong to each rank.
inline std::vector<std::size_t> counts_of_ranks(std::size_t count, int ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    counts[static_cast<std::size_t>(rank)] = part_of_rank(count, ranks, rank).count();
  return counts;
}

}  // namespace tandem::parallel
