// Shards of any number of ranks give the bits of the tree, which are those of one process.
#include "tests/ranks/shards.h"

#include "parallel/shard_sum.h"
#include "tests/ranks/checking.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;

template <class T>
void check_shards_of(Communicator& ranks, int shards, std::size_t length, std::size_t piece) {
  const Range block = part_of_rank(static_cast<std::size_t>(shards), ranks.size(), ranks.rank());
  ShardSum<T> sum(shards, block, length);
  for (std::size_t shard = block.first; shard < block.last; ++shard)
    sum.add(shard_values<T>(static_cast<int>(shard), length));
  const std::vector<T> wanted = tree_sum<T>(0, shards, length);
  std::vector<T> result(length);
  all_reduce_shards<T>(ranks, sum, result, kDeadline, piece);
  expect(same_bits(result, wanted), "all_reduce of {} shards of {} elements in pieces of {}", shards, length,
         piece);
  // Parts of other lengths.
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks.size()), 0);
  counts.front() = length / 3;
  counts.back() += length - length / 3;
  std::size_t first = 0;
  for (int rank = 0; rank < ranks.rank(); ++rank) first += counts[static_cast<std::size_t>(rank)];
  std::vector<T> own(counts[static_cast<std::size_t>(ranks.rank())]);
  reduce_scatter_shards<T>(ranks, sum, counts, own, kDeadline, piece);
  const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(first);
  expect(same_bits(own, std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(own.size()))),
         "reduce_scatter of {} shards of {} elements in pieces of {}", shards, length, piece);
}

}  // namespace

void check_shards(Communicator& ranks) {
  for (const int shards : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 24})
    for (const std::size_t length : {0u, 1u, 7u, 1000u, 50003u}) {
      check_shards_of<float>(ranks, shards, length, std::size_t{1} << 22);
      check_shards_of<double>(ranks, shards, length, length > 10000 ? 9999 : 64);
    }
}

}  // namespace tandem::test
