// Error rates, against jiwer and editdistance (tests/golden/edits.py).
#include "metrics/error_rate.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/golden/edits.h"

using namespace tandem;
using metrics::Edits;
using metrics::edits_of;
using metrics::ErrorRate;
using metrics::nearest_edits;
using Symbols = std::vector<std::int32_t>;
using Words = std::vector<std::string>;

namespace {

// "012" as {0, 1, 2}
Symbols symbols(const std::string& digits) { return {digits.begin(), digits.end()}; }
Words words(const std::string& digits) {
  Words result;
  for (const char digit : digits) result.push_back("word " + std::string(1, digit));
  return result;
}

}  // namespace

TEST_CASE("edits agree with jiwer's and editdistance's", "[error_rate]") {
  ErrorRate corpus;
  for (const golden::EditsCase& c : golden::kEditsCases) {
    CAPTURE(c.reference, c.hypothesis);
    const Symbols reference = symbols(c.reference);
    const Edits edits = edits_of(reference, symbols(c.hypothesis));
    CHECK(edits.substitutions == c.substitutions);
    CHECK(edits.deletions == c.deletions);
    CHECK(edits.insertions == c.insertions);
    CHECK(edits.reference_length == static_cast<std::int64_t>(reference.size()));
    CHECK(edits_of(words(c.reference), words(c.hypothesis)) == edits);
    if (!reference.empty()) corpus.add(edits);
  }
  CHECK(corpus.rate() == Approx(golden::kWordErrorRate).epsilon(1e-14));
}

TEST_CASE("edits of known pairs", "[error_rate]") {
  const Words kitten{"k", "i", "t", "t", "e", "n"}, sitting{"s", "i", "t", "t", "i", "n", "g"};
  CHECK(edits_of(kitten, sitting) == Edits{2, 0, 1, 6});
  CHECK(edits_of(sitting, kitten) == Edits{2, 1, 0, 7});
  CHECK(edits_of(kitten, Words()) == Edits{0, 6, 0, 6});
  CHECK(edits_of(Words(), kitten) == Edits{0, 0, 6, 0});
  CHECK(edits_of(Words(), Words()) == Edits{});
  // Two substitutions, or a deletion and an insertion.
  CHECK(edits_of(symbols("01"), symbols("10")) == Edits{2, 0, 0, 2});
}

TEST_CASE("the nearest of several references counts", "[error_rate]") {
  const std::vector<Symbols> references{symbols("0123"), symbols("0124567"), symbols("9")};
  CHECK(nearest_edits(references, symbols("0124")) == Edits{1, 0, 0, 4});
  CHECK(nearest_edits(references, symbols("012467")) == Edits{0, 1, 0, 7});
  // Equally near: the longer one, in either order.
  CHECK(nearest_edits(std::vector<Symbols>{symbols("01"), symbols("0123")}, symbols("012")) ==
        Edits{0, 1, 0, 4});
  CHECK(nearest_edits(std::vector<Symbols>{symbols("0123"), symbols("01")}, symbols("012")) ==
        Edits{0, 1, 0, 4});
  CHECK(nearest_edits(std::vector<Words>{{"a", "b"}, {"a"}}, Words{"a"}) == Edits{0, 0, 0, 1});
  CHECK_THROWS_AS(nearest_edits(std::vector<Symbols>(), symbols("0")), UserError);
  CHECK_THROWS_AS(nearest_edits(std::vector<Words>(), Words{"a"}), UserError);
}

TEST_CASE("rates are of sums over sequences", "[error_rate]") {
  ErrorRate all, first, second;
  CHECK(std::isnan(all.rate()));
  CHECK(std::isnan(all.sequence_error_rate()));
  first.add({1, 0, 2, 4});
  first.add({0, 0, 0, 10});
  second.add({0, 1, 0, 3});
  second.add({0, 2, 0, 3});
  second.add({0, 0, 0, 0});
  all.merge(first);
  all.merge(second);
  CHECK(all.sum() == Edits{1, 3, 2, 20});
  CHECK(all.rate() == 0.3);
  CHECK(all.sequences() == 5);
  CHECK(all.wrong_sequences() == 3);
  CHECK(all.sequence_error_rate() == 0.6);

  ErrorRate inserted;
  inserted.add({0, 0, 3, 1});
  CHECK(inserted.rate() == 3.0);
  ErrorRate nothing;
  nothing.add({});
  CHECK(std::isnan(nothing.rate()));
  CHECK(nothing.sequence_error_rate() == 0.0);
  nothing.add({0, 0, 1, 0});
  CHECK(std::isinf(nothing.rate()));
}
