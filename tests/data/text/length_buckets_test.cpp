// Length buckets: the samples of each batch.
#include "data/text/length_buckets.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/random.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BucketOptions;
using datasets::BucketOrder;
using datasets::order_buckets;

namespace {

std::vector<Index> lengths_of(Index count, std::uint32_t most) {
  RandomStream random({.seed = 7});
  std::vector<Index> lengths;
  for (Index i = 0; i < count; ++i) lengths.push_back(random.below(most) + 1);
  return lengths;
}

std::vector<std::uint32_t> sorted(std::vector<std::uint32_t> order) {
  std::ranges::sort(order);
  return order;
}

std::vector<Index> counts_of(const BucketOrder& buckets) {
  std::vector<Index> counts;
  for (const auto& batch : buckets.batches) counts.push_back(batch.count);
  return counts;
}

std::vector<Index> padded_of(const BucketOrder& buckets) {
  std::vector<Index> padded;
  for (const auto& batch : buckets.batches) padded.push_back(batch.length);
  return padded;
}

bool same(const BucketOrder& a, const BucketOrder& b) {
  return a.order == b.order && counts_of(a) == counts_of(b) && padded_of(a) == padded_of(b);
}

}  // namespace

TEST_CASE("padded lengths lie on a grid", "[buckets]") {
  CHECK(datasets::padded_length(0, 8) == 8);
  CHECK(datasets::padded_length(1, 8) == 8);
  CHECK(datasets::padded_length(8, 8) == 8);
  CHECK(datasets::padded_length(9, 8) == 16);
  CHECK(datasets::padded_length(9, 1) == 9);
}

TEST_CASE("buckets by hand: sorted, cut, padded", "[buckets]") {
  const std::vector<Index> lengths{9, 3, 17, 3, 8};
  const BucketOrder buckets = order_buckets(lengths, {.sentences = 2, .shuffle = false}, 0);
  CHECK(buckets.order == std::vector<std::uint32_t>{1, 3, 4, 0, 2});  // of one length in the order they came
  CHECK(counts_of(buckets) == std::vector<Index>{2, 2, 1});
  CHECK(padded_of(buckets) == std::vector<Index>{8, 16, 24});
  CHECK(buckets.real_share == Approx(40.0 / 72.0));
  CHECK(std::ranges::equal(buckets.samples(1), std::vector<std::uint32_t>{4, 0}));

  // 8 · 3 and 16 · 1 fit into 31, 8 · 4 does not, nor 16 · 2.
  const BucketOrder tokens = order_buckets(lengths, {.tokens = 31, .shuffle = false}, 0);
  CHECK(counts_of(tokens) == std::vector<Index>{3, 1, 1});
  CHECK(padded_of(tokens) == std::vector<Index>{8, 16, 24});
  CHECK(tokens.real_share == Approx(40.0 / 64.0));
}

TEST_CASE("batches by tokens have a multiple of 8 samples where they have 8", "[buckets]") {
  const std::vector<Index> lengths(29, 5);
  CHECK(counts_of(order_buckets(lengths, {.tokens = 100, .shuffle = false}, 0)) ==  // 12 would fit
        std::vector<Index>{8, 8, 8, 5});
  CHECK(counts_of(order_buckets(lengths, {.tokens = 128, .shuffle = false}, 0)) ==
        std::vector<Index>{16, 8, 5});
  CHECK(counts_of(order_buckets(lengths, {.tokens = 63, .shuffle = false}, 0)) ==
        std::vector<Index>{7, 7, 7, 7, 1});
}

TEST_CASE("buckets hold every sample once, a pure function of seed and epoch", "[buckets]") {
  const std::vector<Index> lengths = lengths_of(5003, 60);
  std::vector<std::uint32_t> all(lengths.size());
  std::iota(all.begin(), all.end(), 0U);
  for (BucketOptions options :
       {BucketOptions{.sentences = 16, .seed = 4}, BucketOptions{.tokens = 640, .seed = 4}}) {
    const BucketOrder buckets = order_buckets(lengths, options, 2);
    CHECK(sorted(buckets.order) == all);
    Index total = 0, padded = 0;
    std::set<std::uint32_t> seen;
    for (std::size_t k = 0; k < buckets.batches.size(); ++k) {
      const auto& batch = buckets.batches[k];
      Index longest = 0;
      for (const std::uint32_t sample : buckets.samples(static_cast<Index>(k))) {
        longest = std::max(longest, lengths[sample]);
        seen.insert(sample);
      }
      CHECK(batch.length == (longest + 7) / 8 * 8);
      if (options.tokens > 0) CHECK(batch.length * batch.count <= options.tokens);
      if (options.sentences > 0) CHECK(batch.count <= options.sentences);
      CHECK(batch.count <= datasets::most_in_a_batch(lengths, options));
      total += batch.count;
      padded += batch.count * batch.length;
    }
    CHECK(total == 5003);
    CHECK(seen.size() == 5003);
    const Index real = std::accumulate(lengths.begin(), lengths.end(), Index{0});
    CHECK(buckets.real_share == Approx(static_cast<double>(real) / static_cast<double>(padded)));
    CHECK(buckets.real_share > 0.85);

    CHECK(same(buckets, order_buckets(lengths, options, 2)));
    CHECK_FALSE(same(buckets, order_buckets(lengths, options, 3)));
    options.seed = 5;
    CHECK_FALSE(same(buckets, order_buckets(lengths, options, 2)));
  }
}

TEST_CASE("buckets are sorted within shards alone, and batches come in any order", "[buckets]") {
  const std::vector<Index> lengths = lengths_of(1000, 400);
  const BucketOptions options{.sentences = 5, .shard = 20};  // shards of 100
  const BucketOrder buckets = order_buckets(lengths, options, 0);
  for (std::size_t i = 0; i + 1 < buckets.order.size(); ++i)
    if (i % 100 != 99) CHECK(lengths[buckets.order[i]] <= lengths[buckets.order[i + 1]]);
  Index drops = 0;
  for (std::size_t i = 99; i + 1 < buckets.order.size(); i += 100)
    drops += lengths[buckets.order[i]] > lengths[buckets.order[i + 1]];
  CHECK(drops == 9);
  Index descents = 0;
  for (std::size_t k = 0; k + 1 < buckets.batches.size(); ++k)
    descents += buckets.batches[k].length > buckets.batches[k + 1].length;
  CHECK(descents > 60);  // of 199, in random order about half
  // 80 batches, unless said otherwise.
  const BucketOrder wide = order_buckets(lengths, {.sentences = 5}, 0);
  for (std::size_t i = 0; i < 399; ++i) CHECK(lengths[wide.order[i]] <= lengths[wide.order[i + 1]]);
  CHECK(lengths[wide.order[399]] > lengths[wide.order[400]]);
}

TEST_CASE("buckets that cannot be are refused", "[buckets]") {
  const std::vector<Index> lengths{3, 9};
  CHECK_FAILS(UserError, order_buckets(lengths, {}, 0),
              "[length_buckets] sentences 0 and tokens 0: one of the two must be positive, the other 0");
  CHECK_FAILS(UserError, order_buckets(lengths, {.sentences = 1, .tokens = 16}, 0),
              "sentences 1 and tokens 16");
  CHECK_FAILS(UserError, order_buckets(lengths, {.sentences = -1, .tokens = 16}, 0), "sentences -1");
  CHECK_FAILS(UserError, order_buckets(lengths, {.sentences = 1, .grid = 0}, 0),
              "a grid of 0 and shards of 80 batches, both at least 1");
  CHECK_FAILS(UserError, order_buckets(lengths, {.sentences = 1, .shard = 0}, 0), "shards of 0 batches");
  CHECK_FAILS(UserError, order_buckets({}, {.sentences = 1}, 0), "[length_buckets] 0 samples, expected 1 to");
  CHECK_FAILS(UserError, order_buckets(std::vector<Index>{3, -1}, {.sentences = 1}, 0),
              "[length_buckets] sample 1 has a length of -1");
  CHECK_NOTHROW(order_buckets(lengths, {.tokens = 16}, 0));
  CHECK_FAILS(
      UserError, order_buckets(lengths, {.tokens = 15}, 0),
      "[length_buckets] sample 1 has 9 tokens, 16 with padding, a batch at most 15; leave it out, cut it, "
      "or set larger batches");
}
