// Batches of texts in parts.
#include "core/backend.h"
#include "core/random.h"
#include "data/text/candidate_source.h"
#include "data/text/pair_source.h"
#include "data/text/sequence_source.h"
#include "data/text/stream_source.h"
#include "tests/data/divided.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

SourcePtr streams(StreamOptions options, Index words = 301) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < words; ++i) ids.push_back(static_cast<std::int32_t>(i * 7 % 40));
  return std::make_shared<StreamSource>(std::make_shared<const PackedIds>(ids), options);
}

// Up to 20 words each.
SourcePtr sequences(BucketOptions options, Device device = {}) {
  auto all = std::make_shared<LabelledSequences>();
  RandomStream random({.seed = 3});
  for (Index i = 0; i < 45; ++i)
    all->add(std::vector<std::int32_t>(random.below(21), static_cast<std::int32_t>(i + 1)), i);
  return std::make_shared<SequenceSource>(all, options, device);
}

SourcePtr pairs(BucketOptions options) {
  auto all = std::make_shared<EncodedPairs>();
  RandomStream random({.seed = 4});
  for (Index i = 0; i < 45; ++i) {
    const auto id = static_cast<std::int32_t>(i + 3);
    const std::vector<std::int32_t> source(random.below(16), id), target(random.below(21), id);
    all->add(source, target);
  }
  return std::make_shared<PairSource>(all, PairSource::Marks{.begin = 1, .end = 2}, options, Device{}, 1000);
}

SourcePtr with_candidates(SourcePtr source) {
  return std::make_shared<CandidateSource>(std::move(source),
                                           CandidateOptions{.classes = 60, .samples = 9, .seed = 5});
}

int axis_of(const std::string& field) {
  if (field.starts_with("candidate")) return -1;
  for (const char* columns : {"token", "source", "target", "target_in", "target_log_count"}) {
    if (field == columns) return 1;
  }
  return 0;
}

struct Case {
  std::string name;
  SourcePtr source;
};

std::vector<Case> cases() {
  const StreamOptions fixed{.streams = 7, .steps = 9},
      drawn{.streams = 4, .steps = 12, .random_lengths = true, .seed = 2};
  const BucketOptions counted{.sentences = 8, .seed = 3, .grid = 4}, by_tokens{.tokens = 90, .seed = 3};
  return {
      {"streams", streams(fixed)},
      {"streams of any length", streams(drawn)},
      {"two streams", streams({.streams = 2, .steps = 9}, 60)},
      {"sequences", sequences(counted, test::test_device())},
      {"sequences by tokens", sequences(by_tokens)},
      {"sequences in order", sequences({.sentences = 7, .shuffle = false})},
      {"more than there are", sequences({.sentences = 100, .seed = 1})},
      {"pairs", pairs(counted)},
      {"pairs by tokens", pairs({.tokens = 90, .seed = 3, .grid = 2})},
      {"candidates of streams", with_candidates(streams(drawn))},
      {"candidates of pairs", with_candidates(pairs(by_tokens))},
  };
}

}  // namespace

TEST_CASE("parts of batches of texts are what is cut out of them", "[division]") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    test::check_divided(c.source, axis_of);
  }
}

TEST_CASE("a part of streams has its own through all batches, and counts their targets", "[division]") {
  const SourcePtr part =
      streams({.streams = 3, .steps = 2}, 14)->divided({.parts = 2, .first = 1, .count = 1});
  Loader loader(part);  // the third stream has 4 words of 14, the first two 5: it reads 9·7 mod 40, …
  const Batch first = loader.next().value();
  CHECK(first["token"].shape() == Shape{2, 1});
  CHECK(first["token"].to_vector<int>() == std::vector<int>{23, 30});
  CHECK(first.samples == 2);
  CHECK(loader.state().position == 6);
  const Batch second = loader.next().value();
  CHECK(second["token"].to_vector<int>() == std::vector<int>{37, 4});
  CHECK(second["length"].to_vector<int>() == std::vector<int>{2});
  CHECK(second.weight == 2.0);
  const Batch last = loader.next().value();  // of the first two streams alone
  CHECK(last.empty());
  CHECK(loader.state().position == 14);
  CHECK_FALSE(loader.next());
}

TEST_CASE("a part without streams is empty in every batch", "[division]") {
  const StreamOptions drawn{.streams = 2, .steps = 12, .random_lengths = true, .seed = 2};
  const SourcePtr whole = with_candidates(streams(drawn)), part = whole->divided({5, 2, 1});
  Loader batches(whole), loader(part, {.threads = 1});
  CHECK(loader.batches_per_epoch() == batches.batches_per_epoch());
  while (const auto batch = batches.next()) {
    const Batch empty = loader.next().value();
    CHECK(empty.empty());
    CHECK(empty.samples == 0);
    CHECK(empty.weight == 0.0);
    CHECK(empty.rate_factor == batch->rate_factor);
    CHECK(loader.state() == batches.state());
  }
  CHECK_FALSE(loader.next());
}

TEST_CASE("room for a part of a batch is a part of the batch's", "[division]") {
  CHECK(streams({.streams = 7, .steps = 9})->divided({5, 3, 2})->layout().samples() == 18);
  CHECK(sequences({.sentences = 8})->divided({3, 2, 1})->layout().samples() == 3);
  for (const SourcePtr& whole : {sequences({.tokens = 160}), pairs({.tokens = 160})}) {
    const SourcePtr part = whole->divided({.parts = 4, .first = 0, .count = 1});
    CHECK(part->layout().bytes() * 2 < whole->layout().bytes());
  }
}

TEST_CASE("texts are divided once", "[division]") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    CHECK_FAILS(UserError, c.source->divided({2, 0, 3}),
                "3 parts from part 0 on, expected parts within the 2");
    CHECK_FAILS(InternalError, c.source->divided({2, 0, 1})->divided({2, 1, 1}), "to be divided into 2");
    CHECK(c.source->divided({1, 0, 1})->divided({2, 1, 1})->division() == ShardSpec{2, 1, 1});
  }
}
