// Batches of labelled sequences.
#include "data/text/sequence_source.h"

#include <algorithm>
#include <map>

#include "core/random.h"
#include "tests/data/text/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Batch;
using datasets::LabelledSequences;
using datasets::Loader;
using datasets::SequenceSource;
using Numbers = std::vector<std::int64_t>;

namespace {

// Sequence i, labelled i, has up to 40 words i + 1.
SequenceSource::Sequences numbered(Index count) {
  auto sequences = std::make_shared<LabelledSequences>();
  RandomStream random({.seed = 3});
  for (Index i = 0; i < count; ++i)
    sequences->add(std::vector<std::int32_t>(random.below(41), static_cast<std::int32_t>(i + 1)), i);
  return sequences;
}

}  // namespace

TEST_CASE("sequences by hand: padded behind, time first", "[sequences]") {
  auto sequences = std::make_shared<LabelledSequences>();
  sequences->add(std::vector<std::int32_t>{5, 6, 7}, 1);
  sequences->add(std::vector<std::int32_t>{8}, 0);
  sequences->add(std::vector<std::int32_t>{}, 2);
  Loader loader(std::make_shared<SequenceSource>(
      sequences, datasets::BucketOptions{.sentences = 2, .shuffle = false, .grid = 2}));
  CHECK(loader.source().layout().samples() == 2);
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(loader.samples_per_epoch() == 3);
  const Batch first = loader.next().value();
  CHECK(first["token"].shape() == Shape{2, 2});
  CHECK(numbers(first, "token") == Numbers{0, 8, 0, 0});
  CHECK(numbers(first, "length") == Numbers{0, 1});
  CHECK(numbers(first, "label") == Numbers{2, 0});
  CHECK(first.samples == 2);
  CHECK(first.weight == 2.0);
  const Batch last = loader.next().value();
  CHECK(last["token"].shape() == Shape{4, 1});
  CHECK(numbers(last, "token") == Numbers{5, 6, 7, 0});
  CHECK(numbers(last, "length") == Numbers{3});
  CHECK(numbers(last, "label") == Numbers{1});
  CHECK(last.samples == 1);
  CHECK_FALSE(loader.next());
}

TEST_CASE("every sequence comes once an epoch, whole, with its length and label", "[sequences]") {
  const auto sequences = numbered(500);
  const std::vector<Index> lengths = sequences->lengths();
  for (const datasets::BucketOptions options :
       {datasets::BucketOptions{.sentences = 16, .seed = 2}, {.tokens = 400, .seed = 2}}) {
    const auto source = std::make_shared<SequenceSource>(sequences, options);
    Loader loader(source);
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      std::map<std::int64_t, Index> seen;
      Index padded = 0, real = 0;
      while (const auto batch = loader.next()) {
        const Numbers token = numbers(*batch, "token"), length = numbers(*batch, "length"),
                      label = numbers(*batch, "label");
        const auto count = static_cast<std::size_t>(batch->samples);
        CHECK(length.size() == count);
        CHECK(batch->weight == static_cast<double>(count));
        padded += static_cast<Index>(token.size());
        for (std::size_t i = 0; i < count; ++i) {
          ++seen[label[i]];
          CHECK(length[i] == lengths[static_cast<std::size_t>(label[i])]);
          real += length[i];
          for (std::size_t t = 0; t * count < token.size(); ++t)
            CHECK(token[t * count + i] == (static_cast<Index>(t) < length[i] ? label[i] + 1 : 0));
        }
      }
      CHECK(seen.size() == 500);
      CHECK(std::ranges::all_of(seen, [](const auto& each) { return each.second == 1; }));
      CHECK(source->order(epoch)->real_share ==
            Approx(static_cast<double>(real) / static_cast<double>(padded)));
    }
  }
}

TEST_CASE("sequences: every number of threads gives the same batches, and any order of asking",
          "[sequences]") {
  const auto make = [] {
    return std::make_shared<SequenceSource>(numbered(300), datasets::BucketOptions{.tokens = 400, .seed = 9});
  };
  Loader reference(make());
  const std::vector<std::string> first = epoch_of(reference), second = epoch_of(reference);
  CHECK(first != second);
  for (const int threads : {1, 3}) {
    Loader loader(make(), {.threads = threads, .prefetch = 2});
    CHECK(epoch_of(loader) == first);
    CHECK(epoch_of(loader) == second);
  }
  for (std::size_t k = 0; k < second.size(); ++k) {
    Loader loader(make(), {.threads = 1});
    const Index before = loader.source().samples_before({1, static_cast<Index>(k)});
    loader.seek({1, before});
    const Batch batch = loader.next().value();
    CHECK(batch.first == before);
    CHECK(bytes_of(batch) == second[k]);
  }
}

TEST_CASE("sequences that cannot be batched are refused", "[sequences]") {
  const auto none = std::make_shared<LabelledSequences>();
  CHECK_FAILS(UserError, SequenceSource(none, {.sentences = 2}), "[length_buckets] 0 samples");
  CHECK_FAILS(UserError, SequenceSource(numbered(9), {}), "[length_buckets] sentences 0 and tokens 0");
  CHECK_FAILS(UserError, SequenceSource(numbered(9), {.tokens = 8}), "[length_buckets] sample");
}
