// Sums of the shards of a step (parallel/shard_exchange.h) over ranks.
#include <algorithm>
#include <cmath>

#include "core/backend.h"
#include "core/convert.h"
#include "parallel/one_process.h"
#include "parallel/partition.h"
#include "parallel/shard_exchange.h"
#include "tests/ranks/checking.h"
#include "tests/ranks/shards.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;
using Values = std::vector<float>;

// All ranks have these bits.
void expect_same_everywhere(Communicator& ranks, const Values& values, const char* what) {
  Values all(values.size() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(values, all, kDeadline);
  for (std::size_t i = 0; i < all.size(); ++i)
    expect(same_bits(Values{all[i]}, Values{values[i % values.size()]}), "{}: element {} of rank {}", what,
           i % values.size(), i / values.size());
}

// Of the own shards of an exchange.
Values sum_by(optim::ShardExchange& exchange, std::size_t length) {
  std::vector<Values> shards;  // which stay until they are added up
  for (int own = 0; own < exchange.own(); ++own)
    shards.push_back(shard_values<float>(exchange.first() + own, length));
  for (const Values& shard : shards) exchange.add(shard);
  Values total(length);
  exchange.sum(total);
  return total;
}

void check_sums(Communicator& ranks, int shards, std::size_t length) {
  OneProcess alone;
  const Values tree = tree_sum<float>(0, shards, length);
  // The sum of an element may be a small difference of its terms, so errors are compared with those.
  double terms = 0.0;
  for (int shard = 0; shard < shards; ++shard)
    for (const float value : shard_values<float>(shard, length))
      terms += std::pow(static_cast<double>(value), 2);
  for (const bool reproducible : {false, true}) {
    SharedFlag flag;
    const ShardExchangeOptions options{
        .shards = shards, .reproducible = reproducible, .deadline_s = kDeadline, .flag = &flag};
    const auto exchange = make_shard_exchange(ranks, options);
    for (int step = 0; step < 2; ++step) {
      const Values total = sum_by(*exchange, length);
      expect_same_everywhere(ranks, total, "sum");
      if (reproducible) {
        expect(same_bits(total, tree), "{} shards of {}: the bits of the tree", shards, length);
        expect(same_bits(total, sum_by(*make_shard_exchange(alone, options), length)),
               "{} shards of {}: the bits of one process", shards, length);
      }
      double difference = 0.0;
      for (std::size_t i = 0; i < length; ++i)
        difference += std::pow(static_cast<double>(total[i]) - tree[i], 2);
      expect(std::sqrt(difference) <= 1e-6 * std::sqrt(terms), "{} shards of {}: off by {}", shards, length,
             std::sqrt(difference / terms));
    }
    std::vector<double> own;
    for (int i = 0; i < exchange->own(); ++i) {
      own.push_back(exchange->first() + i);
      own.push_back(-1.0);
    }
    const std::vector<double> rows = exchange->gather(own);
    for (int shard = 0; shard < shards; ++shard)
      expect(rows.at(static_cast<std::size_t>(2 * shard)) == shard, "row {} of {}", shard, shards);
    expect(rows.size() == static_cast<std::size_t>(2 * shards) && !flag.any, "a flag that nobody set");
    for (int speaker = 0; speaker < ranks.size(); ++speaker) {
      flag.own = ranks.rank() == speaker;
      expect(exchange->gather(own) == rows && flag.any, "the flag of rank {}", speaker);
    }
    flag.own = false;
    expect(exchange->gather(own) == rows && !flag.any, "a flag that was taken back");
  }
}

// The sum of one shard a rank, range by range.
Values sum_of_ranges(Communicator& ranks, DType wire, Index length, Index range, double scale,
                     std::optional<WireError>* error) {
  const auto exchange = make_shard_exchange(
      ranks, {.shards = ranks.size(), .deadline_s = kDeadline, .bucket_bytes = 1, .wire = wire}, error);
  Values own = shard_values<float>(ranks.rank(), static_cast<std::size_t>(length));
  for (float& value : own) value = static_cast<float>(value * scale);
  const Tensor gradients = Tensor::from(own, {length});
  for (Index first = 0; first < length; first += range)
    exchange->begin(gradients.rows(first, std::min(range, length - first)));
  exchange->finish();
  return gradients.to_vector<float>();
}

void check_ranges(Communicator& ranks) {
  constexpr Index kLength = 1001;
  constexpr double kScale = 1e-3;  // values of up to 0.6
  Values exact(kLength);
  for (int rank = 0; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < exact.size(); ++i)
      exact[i] += static_cast<float>(shard_value<float>(rank, i) * kScale);
  for (const Index range : {Index{64}, Index{1000}, kLength}) {
    const Values total = sum_of_ranges(ranks, DType::f32, kLength, range, kScale, nullptr);
    expect_same_everywhere(ranks, total, "ranges");
    for (std::size_t i = 0; i < exact.size(); ++i)
      expect(std::abs(total[i] - exact[i]) < 1e-5, "element {}: {} for {}", i, total[i], exact[i]);
  }
  if (ranks.size() == 1) return;
  for (const auto& [wire, most] : {std::pair(DType::bf16, 0.008), std::pair(DType::f16, 0.001)}) {
    std::optional<WireError> error;
    const Values total = sum_of_ranges(ranks, wire, kLength, 200, kScale, &error);
    expect_same_everywhere(ranks, total, "16 bits");
    expect(error && error->norm > 0.0, "an error of {} was measured", name_of(wire));
    const double share = error->difference / error->norm;
    expect(share > 1e-6 && share < most, "{} on the wire: off by {}", name_of(wire), share);
  }
  // Parts of up to 60,000 have a sum beyond FP16's largest: nothing overflows on the way.
  const double large = 60000.0 / 580.0;
  for (const float value : sum_of_ranges(ranks, DType::f16, kLength, 200, large, nullptr))
    expect(std::isfinite(value), "{} after parts that FP16 has", value);
}

}  // namespace

void check_exchange(Communicator& ranks) {
  for (int shards = ranks.size(); shards <= 3 * ranks.size(); ++shards)
    for (const std::size_t length : {1u, 7u, 1000u, 20011u}) check_sums(ranks, shards, length);
  check_ranges(ranks);
}

}  // namespace tandem::test
