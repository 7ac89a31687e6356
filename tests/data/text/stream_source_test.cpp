// Contiguous streams of a text.
#include "data/text/stream_source.h"

#include <cmath>
#include <map>
#include <numeric>
#include <thread>

#include "tests/data/text/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Batch;
using datasets::kNoTarget;
using datasets::Loader;
using datasets::StreamOptions;
using datasets::StreamSource;
using Numbers = std::vector<std::int64_t>;

namespace {

// The words 100, 101, ….
StreamSource::Ids words(Index count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 100);
  return std::make_shared<const datasets::PackedIds>(ids);
}

datasets::SourcePtr source(Index count, const StreamOptions& options) {
  return std::make_shared<StreamSource>(words(count), options);
}

// Every stream's tokens and targets over an epoch, padding left out, with the chunks' lengths.
struct Epoch {
  std::vector<Numbers> tokens, targets;
  std::vector<Index> lengths;
};

Epoch read(Loader& loader, Index streams) {
  Epoch epoch{.tokens = std::vector<Numbers>(static_cast<std::size_t>(streams)),
              .targets = std::vector<Numbers>(static_cast<std::size_t>(streams)),
              .lengths = {}};
  while (const auto batch = loader.next()) {
    const Numbers token = numbers(*batch, "token"), target = numbers(*batch, "target"),
                  length = numbers(*batch, "length");
    const Index steps = (*batch)["token"].size(0);
    CHECK(batch->samples == std::accumulate(length.begin(), length.end(), std::int64_t{0}));
    CHECK(batch->weight == static_cast<double>(batch->samples));
    CHECK((batch->samples + streams - 1) / streams == length[0]);
    epoch.lengths.push_back(length[0]);
    for (Index t = 0; t < steps; ++t) {
      for (Index b = 0; b < streams; ++b) {
        const auto at = static_cast<std::size_t>(t * streams + b), stream = static_cast<std::size_t>(b);
        if (t >= length[stream]) {
          CHECK(token[at] == 0);
          CHECK(target[at] == kNoTarget);
          continue;
        }
        epoch.tokens[stream].push_back(token[at]);
        epoch.targets[stream].push_back(target[at]);
      }
    }
  }
  return epoch;
}

}  // namespace

TEST_CASE("streams by hand: 3 of 14 words in chunks of 2", "[streams]") {
  Loader loader(source(14, {.streams = 3, .steps = 2}));  // of 5, 5 and 4 words
  CHECK(loader.source().layout().samples() == 6);
  CHECK(loader.batches_per_epoch() == 3);
  CHECK(loader.samples_per_epoch() == 14);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Batch first = loader.next().value();
    CHECK(first["token"].shape() == Shape{2, 3});
    CHECK(numbers(first, "token") == Numbers{1, 104, 109, 100, 105, 110});
    CHECK(numbers(first, "target") == Numbers{100, 105, 110, 101, 106, 111});
    CHECK(numbers(first, "length") == Numbers{2, 2, 2});
    CHECK(first.samples == 6);
    CHECK(loader.next().value().samples == 6);
    const Batch last = loader.next().value();
    CHECK(last["token"].shape() == Shape{2, 3});
    CHECK(numbers(last, "token") == Numbers{103, 108, 0, 0, 0, 0});
    CHECK(numbers(last, "target") == Numbers{104, 109, -1, -1, -1, -1});
    CHECK(numbers(last, "length") == Numbers{1, 1, 0});
    CHECK(last.first == 12);
    CHECK(last.samples == 2);
    CHECK(last.weight == 2.0);
    CHECK_FALSE(loader.next());
  }
}

TEST_CASE("every word is predicted once an epoch, from the one before it", "[streams]") {
  const bool random = GENERATE(false, true);
  const Index count = 403;
  for (const Index streams : {1, 4, 25, 403}) {
    for (const Index steps : {1, 7, 35}) {
      Loader loader(source(count, {.streams = streams, .steps = steps, .random_lengths = random, .seed = 3}));
      CHECK(loader.samples_per_epoch() == count);
      for (int e = 0; e < 2; ++e) {
        const Epoch epoch = read(loader, streams);
        Numbers tokens, targets;
        for (std::size_t b = 0; b < epoch.tokens.size(); ++b) {
          tokens.insert(tokens.end(), epoch.tokens[b].begin(), epoch.tokens[b].end());
          targets.insert(targets.end(), epoch.targets[b].begin(), epoch.targets[b].end());
        }
        Numbers expected(static_cast<std::size_t>(count));
        std::iota(expected.begin(), expected.end(), 100);
        CHECK(targets == expected);
        std::iota(expected.begin(), expected.end(), 99);
        expected[0] = 1;  // the end of a line
        CHECK(tokens == expected);
        if (random) continue;
        const Index longest = (count + streams - 1) / streams;
        CHECK(static_cast<Index>(epoch.lengths.size()) == (longest + steps - 1) / steps);
      }
    }
  }
}

TEST_CASE("random lengths follow AWD-LSTM's rule, one epoch unlike another", "[streams]") {
  const StreamOptions options{.streams = 2, .steps = 70, .random_lengths = true, .seed = 5};
  const StreamSource streams(words(2 * 700'000), options);
  CHECK(streams.capacity() == 90);
  CHECK(streams.layout().samples() == 180);
  double sum = 0.0, squares = 0.0, halved = 0.0;
  Index whole = 0, all = streams.batches(0) - 1;  // the last one has what is left
  for (Index k = 0; k < all; ++k) {
    const Index length = (streams.samples_before({0, k + 1}) - streams.samples_before({0, k})) / 2;
    CHECK(length >= 5);
    CHECK(length <= 90);
    if (length < 52) {  // between the two means, 3.5 deviations from each
      halved += 1.0;
      continue;
    }
    ++whole;
    sum += static_cast<double>(length);
    squares += static_cast<double>(length * length);
  }
  const double mean = sum / static_cast<double>(whole);
  CHECK(mean == Approx(69.5).margin(0.25));  // cut to an integer: half a word less
  CHECK(std::sqrt(squares / static_cast<double>(whole) - mean * mean) == Approx(5.0).margin(0.15));
  CHECK(halved / static_cast<double>(all) == Approx(0.05).margin(0.007));
  CHECK(streams.batches(1) != streams.batches(0));
  CHECK(streams.samples_before({1, 1}) != streams.samples_before({0, 1}));
  StreamOptions other = options;
  other.seed = 6;
  CHECK(StreamSource(words(2 * 700'000), other).samples_before({0, 3}) != streams.samples_before({0, 3}));
  // However short: at least 5.
  const StreamSource brief(words(1000), {.streams = 1, .steps = 1, .random_lengths = true});
  for (Index k = 0; k + 1 < brief.batches(0); ++k)
    CHECK(brief.samples_before({0, k + 1}) - brief.samples_before({0, k}) >= 5);
}

TEST_CASE("streams: every number of threads gives the same batches, and any order of asking", "[streams]") {
  const StreamOptions options{.streams = 3, .steps = 9, .random_lengths = GENERATE(false, true), .seed = 1};
  Loader reference(source(1000, options));
  const std::vector<std::string> first = epoch_of(reference), second = epoch_of(reference);
  CHECK((first != second) == options.random_lengths);
  for (const int threads : {1, 3}) {
    Loader loader(source(1000, options), {.threads = threads, .prefetch = 2});
    CHECK(epoch_of(loader) == first);
    CHECK(epoch_of(loader) == second);
  }
  for (std::size_t k = 0; k < second.size(); ++k) {
    Loader loader(source(1000, options), {.threads = 1});
    const Index before = loader.source().samples_before({1, static_cast<Index>(k)});
    loader.seek({1, before});
    const Batch batch = loader.next().value();
    CHECK(batch.first == before);
    CHECK(bytes_of(batch) == second[k]);
  }
}

TEST_CASE("one source serves two epochs at once", "[streams]") {
  const auto shared = source(4000, {.streams = 2, .steps = 9, .random_lengths = true, .seed = 1});
  Loader alone(shared);
  const std::vector<std::string> first = epoch_of(alone), second = epoch_of(alone);
  std::vector<std::string> a, b;
  std::thread one([&] {
    Loader loader(shared);
    a = epoch_of(loader);
  });
  std::thread two([&] {
    Loader loader(shared);
    loader.seek({1, 0});
    b = epoch_of(loader);
  });
  one.join();
  two.join();
  CHECK(a == first);
  CHECK(b == second);
}

TEST_CASE("streams that cannot be are refused", "[streams]") {
  CHECK_FAILS(UserError, source(10, {.streams = 2, .steps = 0}),
              "[streams] chunks of 0 words, expected at least 1");
  CHECK_FAILS(UserError, source(10, {.streams = 0}), "[streams] 0 streams, expected at least 1");
  CHECK_FAILS(UserError, source(9, {.streams = 10}),
              "[streams] 9 words in 10 streams, expected one for each; set at most 9 streams");
  CHECK_FAILS(UserError, source(0, {.streams = 1}), "0 words in 1 streams");
  CHECK_NOTHROW(source(10, {.streams = 5}));
}
