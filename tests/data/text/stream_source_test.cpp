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
  auto ids = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(count));
  std::iota(ids->begin(), ids->end(), 100);
  return ids;
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
    const Numbers token = numbers(*batch, "token"), target = numbers(*batch, "target");
    const Index length = numbers(*batch, "length")[0], steps = (*batch)["token"].size(0);
    CHECK(numbers(*batch, "length") == Numbers(static_cast<std::size_t>(streams), length));
    CHECK(batch->samples == length * streams);
    CHECK(batch->weight == static_cast<double>(length * streams));
    epoch.lengths.push_back(length);
    for (Index t = 0; t < steps; ++t) {
      for (Index b = 0; b < streams; ++b) {
        const auto at = static_cast<std::size_t>(t * streams + b), stream = static_cast<std::size_t>(b);
        if (t >= length) {
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
  Loader loader(source(14, {.streams = 3, .steps = 2}));  // 4 words a stream, 112 and 113 left over
  CHECK(loader.source().layout().samples() == 6);
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(loader.samples_per_epoch() == 9);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Batch first = loader.next().value();
    CHECK(first["token"].shape() == Shape{2, 3});
    CHECK(numbers(first, "token") == Numbers{100, 104, 108, 101, 105, 109});
    CHECK(numbers(first, "target") == Numbers{101, 105, 109, 102, 106, 110});
    CHECK(numbers(first, "length") == Numbers{2, 2, 2});
    CHECK(first.samples == 6);
    const Batch last = loader.next().value();
    CHECK(last["token"].shape() == Shape{2, 3});
    CHECK(numbers(last, "token") == Numbers{102, 106, 110, 0, 0, 0});
    CHECK(numbers(last, "target") == Numbers{103, 107, 111, -1, -1, -1});
    CHECK(numbers(last, "length") == Numbers{1, 1, 1});
    CHECK(last.samples == 3);
    CHECK(last.weight == 3.0);
    CHECK_FALSE(loader.next());
  }
}

TEST_CASE("every word but the first of a stream is predicted once", "[streams]") {
  const bool random = GENERATE(false, true);
  for (const Index streams : {1, 4}) {
    for (const Index steps : {1, 7, 35}) {
      const Index count = 401, size = count / streams;
      Loader loader(source(count, {.streams = streams, .steps = steps, .random_lengths = random, .seed = 3}));
      for (int e = 0; e < 2; ++e) {
        const Epoch epoch = read(loader, streams);
        for (Index b = 0; b < streams; ++b) {
          Numbers expected(static_cast<std::size_t>(size - 1));
          std::iota(expected.begin(), expected.end(), 100 + b * size);
          CHECK(epoch.tokens[static_cast<std::size_t>(b)] == expected);
          std::iota(expected.begin(), expected.end(), 101 + b * size);
          CHECK(epoch.targets[static_cast<std::size_t>(b)] == expected);
        }
        if (random) continue;
        CHECK(static_cast<Index>(epoch.lengths.size()) == (size - 1 + steps - 1) / steps);
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
  CHECK_FAILS(
      UserError, source(9, {.streams = 5}),
      "[streams] 9 words in 5 streams are 1 each, a stream needs 2: one to read and one to predict; take "
      "at most 4 streams or a longer text");
  CHECK_FAILS(UserError, source(0, {.streams = 1}), "0 words in 1 streams");
  CHECK_NOTHROW(source(10, {.streams = 5}));
}
