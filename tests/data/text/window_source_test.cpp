// Windows of a text.
#include "data/text/window_source.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "data/text/stream_source.h"
#include "tests/data/divided.h"
#include "tests/data/text/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Batch;
using datasets::kNoTarget;
using datasets::Loader;
using datasets::WindowOptions;
using datasets::WindowSource;
using Numbers = std::vector<std::int64_t>;

namespace {

// The words 100, 101, ….
datasets::SourcePtr windows_of(Index count, const WindowOptions& options) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 100);
  return std::make_shared<WindowSource>(std::make_shared<const datasets::PackedIds>(ids), options);
}

}  // namespace

TEST_CASE("windows by hand: 3 of 11 words in batches of 2", "[windows]") {
  Loader loader(windows_of(11, {.windows = 2, .length = 4}), {});
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(loader.samples_per_epoch() == 11);
  const Batch first = loader.next().value();
  CHECK(first["token"].shape() == Shape{4, 2});
  CHECK(numbers(first, "token") == Numbers{1, 103, 100, 104, 101, 105, 102, 106});
  CHECK(numbers(first, "target") == Numbers{100, 104, 101, 105, 102, 106, 103, 107});
  CHECK(first.samples == 8);
  const Batch last = loader.next().value();
  CHECK(last["token"].shape() == Shape{4, 1});
  CHECK(numbers(last, "token") == Numbers{107, 108, 109, 0});
  CHECK(numbers(last, "target") == Numbers{108, 109, 110, kNoTarget});
  CHECK(last.samples == 3);
  CHECK_FALSE(loader.next());
}

TEST_CASE("the token before the text is an option", "[windows]") {
  Loader loader(windows_of(11, {.windows = 2, .length = 4, .begin = 7}), {});
  CHECK(numbers(loader.next().value(), "token") == Numbers{7, 103, 100, 104, 101, 105, 102, 106});
}

TEST_CASE("an epoch of training has windows that follow from seed and epoch", "[windows]") {
  const WindowOptions options{.windows = 3, .length = 5, .shuffle = true, .seed = 7};
  constexpr Index kWords = 103;
  Loader loader(windows_of(kWords, options), {});
  CHECK(loader.batches_per_epoch() == 6);  // 19 windows
  std::set<std::int64_t> offsets;
  std::vector<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> begins;
    while (const auto batch = loader.next()) {
      const Numbers token = numbers(*batch, "token"), target = numbers(*batch, "target");
      for (std::size_t n = 0; n < 3; ++n) {
        begins.push_back(target[n] - 100);
        for (std::size_t t = 0; t < 5; ++t) {
          CHECK(target[3 * t + n] == target[n] + static_cast<std::int64_t>(t));
          CHECK(token[3 * t + n] == (target[3 * t + n] == 100 ? 1 : target[3 * t + n] - 1));
        }
      }
    }
    const std::set<std::int64_t> distinct(begins.begin(), begins.end());
    CHECK(distinct.size() == 18);
    CHECK(*distinct.rbegin() + 5 <= kWords);
    for (const std::int64_t begin : begins) CHECK((begin - begins.front()) % 5 == 0);
    offsets.insert(begins.front() % 5);
    orders.push_back(begins);
  }
  CHECK(offsets.size() > 1);
  CHECK(orders[0] != orders[1]);
  CHECK_FALSE(std::ranges::is_sorted(orders[0]));
  // The same again, and from the middle.
  Loader again(windows_of(kWords, options), {});
  CHECK(numbers(again.next().value(), "target").front() - 100 == orders[0].front());
}

TEST_CASE("windows of ranks are those of the whole batches", "[windows]") {
  const WindowOptions options{.windows = 4, .length = 5, .shuffle = true, .seed = 7};
  const auto source = windows_of(103, options);
  const TwoEpochs whole(source), divided(source->divided({.parts = 3, .first = 0, .count = 3}));
  for (int epoch = 0; epoch < 2; ++epoch)
    check_parts(whole.epochs[epoch], divided.epochs[epoch], 3, [](const std::string&) { return 1; });
}

TEST_CASE("texts too short for windows are refused", "[windows]") {
  CHECK_FAILS(UserError, windows_of(19, {.windows = 3, .length = 5, .shuffle = true}),
              "a text of 19 words is too short for a batch of 3 windows of 5 words, which needs 20");
  CHECK_FAILS(UserError, windows_of(0, {.windows = 3, .length = 5}), "the text has no words");
  CHECK_FAILS(UserError, windows_of(9, {.windows = 0, .length = 5}), "0 windows in a batch");
  CHECK_FAILS(UserError, windows_of(9, {.windows = 3, .length = 0}), "windows of 0 words");
}
