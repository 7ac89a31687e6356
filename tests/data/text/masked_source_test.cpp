// Texts with masked words: passages of documents, numbers and shares of choices, what decides them, batches.
#include "data/text/masked_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "data/loader.h"
#include "data/text/stream_source.h"
#include "tests/support/errors.h"

using namespace tandem;
using datasets::MaskedSource;
using datasets::MaskingOptions;
using datasets::Passages;

namespace {

constexpr std::int32_t kPadding = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kMask = 4, kWords = 40;

datasets::MaskedMarks marks() {
  return {.begin = kBegin,
          .end = kEnd,
          .mask = kMask,
          .padding = kPadding,
          .words = kWords,
          .special = {kPadding, kUnknown, kBegin, kEnd, kMask}};
}

// Documents of the given lengths; word i of all is 5 + i mod 35.
std::shared_ptr<const datasets::PackedIds> documents(const std::vector<int>& lengths) {
  std::vector<std::int32_t> ids;
  int word = 0;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i) ids.push_back(5 + word++ % 35);
    ids.push_back(kEnd);
  }
  return std::make_shared<const datasets::PackedIds>(ids);
}

MaskedSource source_of(const std::vector<int>& lengths, const MaskingOptions& masking = {}, Index batch = 4,
                       bool shuffle = true) {
  auto passages = std::make_shared<const Passages>(
      datasets::passages_of(documents(lengths), kEnd, 30, masking.pairs ? 2 : 1));
  return MaskedSource(passages, marks(), masking, {.sentences = batch, .shuffle = shuffle, .seed = 7});
}

// The text before masking.
std::vector<std::int64_t> original(datasets::MaskedText text) {
  for (std::size_t i = 0; i < text.positions.size(); ++i)
    text.tokens[static_cast<std::size_t>(text.positions[i])] = text.labels[i];
  return text.tokens;
}

bool equal_texts(const datasets::MaskedText& a, const datasets::MaskedText& b) {
  return a.tokens == b.tokens && a.positions == b.positions && a.labels == b.labels && a.next == b.next;
}

}  // namespace

TEST_CASE("documents are cut into passages of even length", "[data][masked]") {
  const Passages passages = datasets::passages_of(documents({3, 10, 0, 21}), kEnd, 10);
  std::vector<std::pair<std::size_t, Index>> places;
  for (const auto& place : passages.places) places.emplace_back(place.first, place.count);
  CHECK(places == std::vector<std::pair<std::size_t, Index>>{{0, 3}, {4, 10}, {16, 7}, {23, 7}, {30, 7}});
  CHECK(datasets::passages_of(documents({1, 4}), kEnd, 10, 2).size() == 1);
  CHECK_FAILS(UserError, datasets::passages_of(documents({1}), kEnd, 0), "passages of 1 to 0 ids");
}

// google-research/bert: min(20, max(1, round(0.15 · tokens))), where Python rounds halves to even.
TEST_CASE("the number of masked words is that of the original program", "[data][masked]") {
  const std::map<Index, Index> expected{{3, 1}, {10, 2}, {50, 8}, {70, 10}, {128, 19}, {512, 20}};
  for (const auto& [tokens, count] : expected) CHECK(datasets::masked_count(tokens, {}) == count);
}

TEST_CASE("masked words are chosen by seed, epoch and sample", "[data][masked]") {
  const std::vector<int> lengths(400, 30);
  const MaskedSource source = source_of(lengths);
  Index masked = 0, kept = 0, replaced = 0;
  for (Index sample = 0; sample < 400; ++sample) {
    const datasets::MaskedText text = source.text(sample, 1);
    REQUIRE(text.tokens.size() == 32);
    REQUIRE(text.tokens.front() == kBegin);
    REQUIRE(text.tokens.back() == kEnd);
    REQUIRE(text.positions.size() == 5);  // round(4.8)
    REQUIRE(std::ranges::is_sorted(text.positions));
    REQUIRE(std::set(text.positions.begin(), text.positions.end()).size() == 5);
    REQUIRE((text.positions.front() > 0 && text.positions.back() < 31));  // never a mark
    for (std::size_t i = 0; i < 5; ++i) {
      const std::int64_t now = text.tokens[static_cast<std::size_t>(text.positions[i])];
      masked += now == kMask;
      kept += now == text.labels[i];
      replaced += now != kMask && now != text.labels[i];
      REQUIRE((now >= kMask && text.labels[i] > kMask));  // random words are no marks
    }
    const std::vector<std::int64_t> words = original(text);
    for (Index i = 0; i < 30; ++i)
      REQUIRE(words[static_cast<std::size_t>(i) + 1] == 5 + (sample * 30 + i) % 35);
    REQUIRE(equal_texts(text, source.text(sample, 1)));
  }
  CHECK(masked + kept + replaced == 2000);
  CHECK(std::abs(masked - 1600) < 75);  // four deviations
  CHECK(std::abs(replaced - 194) < 55);
  CHECK_FALSE(source.text(3, 1).positions == source.text(3, 2).positions);
  CHECK_FALSE(source.text(3, 1).positions == source_of(lengths, {.seed = 1}).text(3, 1).positions);
}

TEST_CASE("evaluation masks a text alike in every epoch and at every place", "[data][masked]") {
  const MaskingOptions masking{.training = false};
  const MaskedSource source = source_of({35 + 5, 20, 35 + 5, 20}, masking);  // documents 1 and 3 differ
  CHECK(equal_texts(source.text(2, 1), source.text(2, 9)));
  const MaskedSource once = source_of({35, 35}, masking), again = source_of({35, 35, 35}, masking);
  // Passages 0 and 2 have the same words.
  CHECK(equal_texts(once.text(0, 1), once.text(2, 1)));
  CHECK(equal_texts(once.text(0, 1), again.text(4, 3)));
  CHECK_FALSE(original(once.text(0, 1)) == original(once.text(1, 1)));
}

TEST_CASE("half of the pairs have the second half of another passage", "[data][masked]") {
  const MaskedSource source = source_of(std::vector<int>(300, 9), {.pairs = true});
  int others = 0;
  for (Index sample = 0; sample < 300; ++sample) {
    const datasets::MaskedText text = source.text(sample, 0);
    const std::vector<std::int64_t> words = original(text);
    REQUIRE(words.size() == 12);  // [CLS] 5 [SEP] 4 [SEP]
    REQUIRE(text.first_segment == 7);
    REQUIRE((words[6] == kEnd && words[11] == kEnd));
    const std::int64_t following = 5 + (sample * 9 + 5) % 35;
    if (text.next == 0) REQUIRE(words[7] == following);
    others += static_cast<int>(text.next);
  }
  CHECK(std::abs(others - 150) < 36);
  CHECK_FAILS(UserError,
              MaskedSource(std::make_shared<const Passages>(datasets::passages_of(documents({1}), kEnd, 9)),
                           marks(), {.pairs = true}, {.sentences = 2}),
              "pairs need passages of at least two ids");
}

TEST_CASE("a batch has the masked rows of its texts", "[data][masked]") {
  const MaskedSource source = source_of({12, 5, 17, 9, 3}, {.most = 3, .pairs = true}, 3, false);
  for (const Index parts : {1, 2}) {
    double weight = 0.0;
    for (Index part = 0; part < parts; ++part) {
      const auto divided = source.divided({.parts = parts, .first = part, .count = 1});
      datasets::Loader loader(divided, {});
      for (Index number = 0; const auto batch = loader.next(); ++number) {
        const auto whole = source.order(0)->samples(number);
        const Index rows = (*batch)["tokens"].size(0), steps = (*batch)["tokens"].size(1);
        CHECK(steps % 8 == 0);
        const Index first = parts == 1 || part == 0 ? 0 : static_cast<Index>(whole.size()) - rows;
        const auto tokens = (*batch)["tokens"].to_vector<std::int64_t>();
        const auto segments = (*batch)["segments"].to_vector<std::int64_t>();
        const auto positions = (*batch)["masked_positions"].to_vector<std::int64_t>();
        const auto labels = (*batch)["masked_labels"].to_vector<std::int64_t>();
        for (Index n = 0; n < rows; ++n) {
          const auto text = source.text(whole[static_cast<std::size_t>(first + n)], 0);
          const auto length = static_cast<Index>(text.tokens.size());
          CHECK((*batch)["lengths"].to_vector<std::int64_t>()[static_cast<std::size_t>(n)] == length);
          CHECK((*batch)["next"].to_vector<std::int64_t>()[static_cast<std::size_t>(n)] == text.next);
          for (Index t = 0; t < steps; ++t) {
            const auto at = static_cast<std::size_t>(n * steps + t);
            CHECK(tokens[at] == (t < length ? text.tokens[static_cast<std::size_t>(t)] : kPadding));
            CHECK(segments[at] == (t >= text.first_segment && t < length));
          }
          for (Index i = 0; i < 3; ++i) {
            const auto at = static_cast<std::size_t>(n * 3 + i);
            const bool chosen = i < static_cast<Index>(text.positions.size());
            CHECK(positions[at] == (chosen ? n * steps + text.positions[static_cast<std::size_t>(i)] : 0));
            CHECK(labels[at] == (chosen ? text.labels[static_cast<std::size_t>(i)] : datasets::kNoTarget));
          }
        }
        weight += batch->weight;
      }
    }
    double all = 0.0;
    for (Index sample = 0; sample < 5; ++sample)
      all += static_cast<double>(source.text(sample, 0).positions.size());
    CHECK(weight == all);
  }
}
