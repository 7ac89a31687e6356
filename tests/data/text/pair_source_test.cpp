// Batches of pairs.
#include "data/text/pair_source.h"

#include <map>

#include "core/random.h"
#include "tests/data/text/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Batch;
using datasets::EncodedPairs;
using datasets::Loader;
using datasets::PairSource;
using Numbers = std::vector<std::int64_t>;
using Ids = std::vector<std::int32_t>;

namespace {

constexpr PairSource::Marks kMarks{.begin = 1, .end = 2};

// Of pair i the source is up to 30 times 2i + 3, the target up to 30 times 2i + 4.
PairSource::Pairs numbered(Index count) {
  auto pairs = std::make_shared<EncodedPairs>();
  RandomStream random({.seed = 3});
  for (Index i = 0; i < count; ++i) {
    const auto id = static_cast<std::int32_t>(2 * i + 3);
    const Ids source(random.below(31), id), target(random.below(31), id + 1);
    pairs->add(source, target);
  }
  return pairs;
}

// A column of a field, cut at `length`; `rest` is what must stand behind it.
Numbers column(const Batch& batch, const char* field, Index which, std::int64_t length, std::int64_t rest) {
  const Numbers all = numbers(batch, field);
  Numbers found;
  for (Index t = 0; t < batch[field].size(0); ++t) {
    const std::int64_t value = all[static_cast<std::size_t>(t * batch.samples + which)];
    if (t < length) {
      found.push_back(value);
    } else {
      CHECK(value == rest);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("pairs by hand: time first, begin before and end behind the target", "[pairs]") {
  auto pairs = std::make_shared<EncodedPairs>();
  pairs->add(Ids{5, 6, 7}, Ids{8});
  pairs->add(Ids{9}, Ids{});
  const auto source = std::make_shared<PairSource>(
      pairs, kMarks, datasets::BucketOptions{.sentences = 2, .shuffle = false, .grid = 2});
  CHECK(source->layout().samples() == 2);
  CHECK(source->real_share(0) == Approx((3 + 1 + 2 + 1) / (2.0 * (4 + 2))));
  Loader loader(source);
  const Batch batch = loader.next().value();
  CHECK(batch["source"].shape() == Shape{4, 2});
  CHECK(numbers(batch, "pair") == Numbers{1, 0});
  CHECK(numbers(batch, "source") == Numbers{9, 5, 0, 6, 0, 7, 0, 0});
  CHECK(numbers(batch, "source_length") == Numbers{1, 3});
  CHECK(batch["target_in"].shape() == Shape{2, 2});
  CHECK(numbers(batch, "target_in") == Numbers{1, 1, 0, 8});
  CHECK(numbers(batch, "target") == Numbers{2, 8, -1, 2});
  CHECK(numbers(batch, "target_length") == Numbers{1, 2});
  CHECK(batch.samples == 2);
  CHECK(batch.weight == 3.0);
  CHECK_FALSE(loader.next());
}

TEST_CASE("every pair comes once an epoch, whole, with its marks", "[pairs]") {
  const PairSource::Pairs pairs = numbered(300);
  for (const datasets::BucketOptions options :
       {datasets::BucketOptions{.sentences = 16, .seed = 2}, {.tokens = 320, .seed = 2}}) {
    const auto source = std::make_shared<PairSource>(pairs, kMarks, options);
    Loader loader(source);
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      std::map<std::int64_t, int> seen;
      Index padded = 0, real = 0, before = 0;
      for (Index number = 0; const auto batch = loader.next(); ++number) {
        CHECK(source->samples_before({epoch, number}) == before);
        CHECK(batch->first == before);
        before += batch->samples;
        const Numbers pair = numbers(*batch, "pair"), from = numbers(*batch, "source_length"),
                      to = numbers(*batch, "target_length");
        padded += (*batch)["source"].numel() + (*batch)["target"].numel();
        CHECK((*batch)["target"].shape() == (*batch)["target_in"].shape());
        if (options.tokens > 0) {
          CHECK((*batch)["source"].numel() <= options.tokens);
          CHECK((*batch)["target"].numel() <= options.tokens);
        }
        CHECK((*batch)["source"].size(0) % options.grid == 0);
        Index targets = 0;
        for (Index i = 0; i < batch->samples; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ++seen[pair[at]];
          const auto source_ids = pairs->source(pair[at]), target_ids = pairs->target(pair[at]);
          REQUIRE(from[at] == static_cast<Index>(source_ids.size()));
          REQUIRE(to[at] == static_cast<Index>(target_ids.size()) + 1);
          Numbers in{kMarks.begin}, out;
          in.insert(in.end(), target_ids.begin(), target_ids.end());
          out.assign(target_ids.begin(), target_ids.end());
          out.push_back(kMarks.end);
          CHECK(column(*batch, "source", i, from[at], 0) == Numbers(source_ids.begin(), source_ids.end()));
          CHECK(column(*batch, "target_in", i, to[at], 0) == in);
          CHECK(column(*batch, "target", i, to[at], -1) == out);
          targets += to[at];
          real += from[at] + to[at];
        }
        CHECK(batch->weight == static_cast<double>(targets));
      }
      CHECK(seen.size() == 300);
      for (const auto& [pair, times] : seen) CHECK(times == 1);
      CHECK(source->real_share(epoch) ==
            Approx(static_cast<double>(real) / static_cast<double>(padded)).epsilon(1e-12));
    }
  }
}

TEST_CASE("batches of pairs are a function of seed, epoch and number", "[pairs]") {
  const PairSource::Pairs pairs = numbered(200);
  const auto epochs = [&](std::uint64_t seed) {
    Loader loader(
        std::make_shared<PairSource>(pairs, kMarks, datasets::BucketOptions{.sentences = 8, .seed = seed}));
    const auto first = epoch_of(loader), second = epoch_of(loader);
    return std::pair(first, second);
  };
  const auto one = epochs(5);
  CHECK(one == epochs(5));
  CHECK(one.first != one.second);
  CHECK(one.first != epochs(6).first);
  // In any order.
  const PairSource source(pairs, kMarks, {.sentences = 8, .seed = 5});
  datasets::BufferPool pool(source.layout(), {});
  for (const datasets::BatchKey key : {datasets::BatchKey{1, 3}, {0, 7}, {1, 0}, {0, 0}}) {
    datasets::BatchBuffer& buffer = pool.take();
    source.fill(key, false, buffer);
    const auto& expected = key.epoch == 0 ? one.first : one.second;
    CHECK(bytes_of(buffer.in(buffer.block())) == expected.at(static_cast<std::size_t>(key.number)));
    pool.give_back(buffer);
  }
}

TEST_CASE("pairs that fit no batch, and options without sense, are refused", "[pairs]") {
  auto pairs = std::make_shared<EncodedPairs>();
  pairs->add(Ids(3, 5), Ids(16, 5));
  CHECK_NOTHROW(PairSource(pairs, kMarks, {.tokens = 24}));
  CHECK_FAILS(UserError, PairSource(pairs, kMarks, {.tokens = 16}),
              "sample 0 has 17 tokens, 24 with padding");
  CHECK_FAILS(UserError, PairSource(pairs, kMarks, {}), "one of the two must be positive");
  CHECK_FAILS(UserError, PairSource(std::make_shared<EncodedPairs>(), kMarks, {.sentences = 2}), "0 samples");
}
