// Pair corpora: encoding, pairs that are left out, and the registry.
#include "data/text/pair_corpus.h"

#include <algorithm>

#include "data/text/pair_registry.h"
#include "tests/data/text/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::CodecChoice;
using datasets::PairCorpus;
using datasets::PairOptions;
using datasets::PairTexts;
using Ids = std::vector<std::int32_t>;

namespace {

PairTexts small() {
  return {.train = {{"ab", {"x y", "x"}}, {"b", {"y"}}},
          .validation = {{"ba", {"y x", "z"}}},
          .test = {{"c", {"x"}}},
          .where = "here",
          .notes = {"a note"}};
}

PairOptions two() {
  return {.source_codec = CodecChoice("characters"), .target_codec = CodecChoice("spaces"), .max_length = 2};
}

Ids ids(std::span<const std::int32_t> numbers) { return {numbers.begin(), numbers.end()}; }

bool says(const std::vector<std::string>& notes, const std::string& part) {
  return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(part) != note.npos; });
}

}  // namespace

TEST_CASE("every target of a source is an example to learn; of evaluated ones the first", "[pairs]") {
  const PairCorpus corpus = datasets::make_pair_corpus(small(), two());
  CHECK_FALSE(corpus.codecs.shared());
  CHECK(corpus.train.size() == 3);
  CHECK(ids(corpus.train.source(0)) == Ids{3, 2});  // b is more frequent than a
  CHECK(ids(corpus.train.target(0)) == Ids{2, 3});
  CHECK(ids(corpus.train.source(1)) == Ids{3, 2});
  CHECK(ids(corpus.train.target(1)) == Ids{2});
  CHECK(ids(corpus.train.source(2)) == Ids{2});
  CHECK(corpus.train.longest_source() == 2);
  CHECK(corpus.train.references.empty());
  CHECK(corpus.validation.size() == 1);
  CHECK(ids(corpus.validation.target(0)) == Ids{3, 2});
  CHECK(corpus.validation.sources == std::vector<std::string>{"ba"});
  CHECK(corpus.validation.references == std::vector<std::vector<std::string>>{{"y x", "z"}});
  CHECK(corpus.test.unknown_source == 1);
  CHECK(corpus.test.unknown_target == 0);
  CHECK(corpus.notes == std::vector<std::string>{"a note"});
}

TEST_CASE("one codec for both sides knows the pieces of both", "[pairs]") {
  const PairCorpus corpus = datasets::make_pair_corpus(small(), {.codec = CodecChoice("characters")});
  CHECK(corpus.codecs.shared());
  CHECK(corpus.codecs.source->size() == 2 + 5);  // a b x y and the space
  const PairCorpus again = datasets::make_pair_corpus(small(), {}, corpus.codecs);
  CHECK(again.codecs.source == corpus.codecs.source);
  CHECK(again.train.target_ids == corpus.train.target_ids);
}

TEST_CASE("long and empty pairs are left out of training, and kept for evaluation", "[pairs]") {
  PairTexts texts = small();
  texts.train.push_back({"aab", {"x"}});
  texts.train.push_back({"a", {"x x x", "x x"}});
  texts.train.push_back({"", {"x"}});
  texts.train.push_back({"a", {" "}});
  texts.test.push_back({"aaaa", {"x"}});
  texts.test.push_back({"", {""}});
  const PairCorpus corpus = datasets::make_pair_corpus(texts, two());
  CHECK(corpus.train.size() == 4);
  CHECK(ids(corpus.train.source(3)) == Ids{2});
  CHECK(corpus.train.target(3).size() == 2);
  CHECK(
      says(corpus.notes, "2 training pairs have more than 2 pieces on a side (max_length) and are left out"));
  CHECK(says(corpus.notes, "2 training pairs have a side without a piece"));
  CHECK(says(corpus.notes, "1 pairs for validation and test have more than 2 pieces"));
  CHECK(corpus.test.size() == 3);
  CHECK(corpus.test.source(1).size() == 4);
  CHECK(corpus.test.target(2).empty());
}

TEST_CASE("splits without training data are refused", "[pairs]") {
  PairTexts none = small();
  none.train.clear();
  CHECK_FAILS(UserError, datasets::make_pair_corpus(none, two()), "here] has no training pair");
  PairTexts texts = small();
  texts.train = {{"aaa", {"x"}}};
  CHECK_FAILS(UserError, datasets::make_pair_corpus(texts, two()),
              "here] none of 1 training pairs remains: 1 have more than 2 pieces");
  PairOptions both = two();
  both.codec = CodecChoice("bpe");
  CHECK_FAILS(UserError, datasets::make_pair_corpus(small(), both), "is for both sides");
  CHECK_FAILS(UserError, datasets::make_pair_corpus(small(), {.source_codec = CodecChoice("bpe")}),
              "and target_codec come together");
  CHECK_FAILS(UserError, datasets::make_pair_corpus(small(), {}), "no codec is named");
  CHECK_FAILS(UserError, datasets::make_pair_corpus(small(), {.codec = CodecChoice("bpe"), .max_length = 0}),
              "max_length");
  CHECK_FAILS(UserError, datasets::open_pairs("text_pair"), "text_pairs");
}
