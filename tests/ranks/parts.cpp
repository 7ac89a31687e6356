// Reduce-scatter and all-gather of parts over an exchange of shards.
#include <cmath>
#include <numeric>
#include <optional>

#include "core/tensor.h"
#include "parallel/partition.h"
#include "parallel/shard_exchange.h"
#include "tests/ranks/checking.h"
#include "tests/ranks/shards.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;
using Values = std::vector<float>;

// Even parts, or of 0, 1, 2, … times as much.
std::vector<std::size_t> counts_for(std::size_t length, int ranks, bool even) {
  if (even || ranks == 1) return counts_of_ranks(length, ranks);
  std::vector<std::size_t> counts;
  const std::size_t unit = length / static_cast<std::size_t>(ranks * ranks);
  for (int rank = 0; rank + 1 < ranks; ++rank) counts.push_back(unit * static_cast<std::size_t>(rank));
  counts.push_back(length - std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  return counts;
}

Range part_in(const std::vector<std::size_t>& counts, int rank) {
  const std::size_t first = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  return {first, first + counts[static_cast<std::size_t>(rank)]};
}

void check_sum(Communicator& ranks, int shards, std::size_t length, bool reproducible, bool even) {
  const auto exchange = make_shard_exchange(
      ranks, {.shards = shards, .reproducible = reproducible, .deadline_s = kDeadline}, nullptr);
  const std::vector<std::size_t> counts = counts_for(length, ranks.size(), even);
  const Range part = part_in(counts, ranks.rank());
  for (int step = 0; step < 2; ++step) {
    std::vector<Values> own;
    for (int i = 0; i < exchange->own(); ++i)
      own.push_back(shard_values<float>(exchange->first() + i, length));
    for (const Values& shard : own) exchange->add(shard);
    Values whole(length);
    exchange->sum(whole);
    for (const Values& shard : own) exchange->add(shard);
    const Tensor total = Tensor::from(own.back(), {static_cast<Index>(length)});
    exchange->sum_parts(total, counts);
    const Values parts = total.to_vector<float>();
    for (std::size_t i = part.first; i < part.last; ++i) {
      // One addition has the same bits either way round.
      if (reproducible || (ranks.size() <= 2 && shards == ranks.size()))
        expect(parts[i] == whole[i], "element {} of {} shards: {} for {}", i, shards, parts[i], whole[i]);
      expect(std::abs(parts[i] - whole[i]) <= 1e-3f * (1.0f + std::abs(whole[i])),
             "element {} of {} shards: {} for {}", i, shards, parts[i], whole[i]);
    }
  }
}

void check_gathering(Communicator& ranks, std::size_t length, bool even) {
  const auto exchange =
      make_shard_exchange(ranks, {.shards = ranks.size(), .deadline_s = kDeadline}, nullptr);
  const std::vector<std::size_t> counts = counts_for(length, ranks.size(), even);
  const Values wanted = shard_values<float>(3, length);
  Values own(length, -7.0f);
  const Range part = part_in(counts, ranks.rank());
  std::copy(wanted.begin() + static_cast<std::ptrdiff_t>(part.first),
            wanted.begin() + static_cast<std::ptrdiff_t>(part.last),
            own.begin() + static_cast<std::ptrdiff_t>(part.first));
  const Tensor whole = Tensor::from(own, {static_cast<Index>(length)});
  exchange->gather_parts(whole, counts);
  expect(same_bits(whole.to_vector<float>(), wanted), "every rank has all parts");
  const Tensor first = exchange->part_by_part(
      whole.rows(static_cast<Index>(part.first), static_cast<Index>(part.count())), counts);
  expect(first.defined() == (ranks.rank() == 0), "the first rank alone gets them");
  if (first.defined()) expect(same_bits(first.to_vector<float>(), wanted), "part by part");
}

void check_wire(Communicator& ranks, DType wire, double most) {
  constexpr std::size_t kLength = 1001;
  std::optional<WireError> error;
  const auto exchange = make_shard_exchange(
      ranks, {.shards = ranks.size(), .deadline_s = kDeadline, .bucket_bytes = 1, .wire = wire}, &error);
  const std::vector<std::size_t> counts = counts_for(kLength, ranks.size(), false);
  const Range part = part_in(counts, ranks.rank());
  for (int step = 0; step < 2; ++step) {
    Values own = shard_values<float>(ranks.rank(), kLength);
    for (float& value : own) value *= 1e-3f;
    Values exact(kLength);
    for (int rank = 0; rank < ranks.size(); ++rank)
      for (std::size_t i = 0; i < kLength; ++i) exact[i] += shard_value<float>(rank, i) * 1e-3f;
    const Tensor total = Tensor::from(own, {static_cast<Index>(kLength)});
    exchange->add({total.data<float>(), kLength});
    exchange->sum_parts(total, counts);
    const Values parts = total.to_vector<float>();
    for (std::size_t i = part.first; i < part.last; ++i)
      expect(std::abs(parts[i] - exact[i]) <= 0.1, "element {}: {} for {}", i, parts[i], exact[i]);
    expect(error.has_value() && error->norm > 0.0, "an error of {} was measured", name_of(wire));
    const double share = error->difference / error->norm;
    expect(share > 1e-6 && share < most, "{} on the wire: off by {}", name_of(wire), share);
  }
}

}  // namespace

void check_parts(Communicator& ranks) {
  for (const bool even : {true, false}) {
    for (const std::size_t length : {16u, 1000u, 20011u}) {
      for (const bool reproducible : {false, true})
        for (int shards = ranks.size(); shards <= 2 * ranks.size() + 1; ++shards)
          check_sum(ranks, shards, length, reproducible, even);
      check_gathering(ranks, length, even);
    }
  }
  if (ranks.size() == 1) return;
  check_wire(ranks, DType::bf16, 0.008);
  check_wire(ranks, DType::f16, 0.001);
}

}  // namespace tandem::test
