// Vocabularies: selection of words, and storage.
#include "data/text/vocabulary.h"

#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Vocabulary;
using datasets::WordCounts;
using Words = std::vector<std::string>;

namespace {

WordCounts counts_of(const Words& words) {
  WordCounts counts;
  datasets::count_words(words, counts);
  return counts;
}

const WordCounts& counts() {
  static const WordCounts counts = counts_of({"b", "a", "c", "a", "b", "d", "a"});  // a 3, b 2, c 1, d 1
  return counts;
}

}  // namespace

TEST_CASE("a vocabulary holds the most frequent words, in a fixed order", "[text]") {
  const Vocabulary vocabulary(counts(), {.size = 5});
  CHECK(vocabulary.words() == Words{"<unk>", "<end>", "a", "b", "c"});
  CHECK(vocabulary.size() == 5);
  CHECK(vocabulary.id_of("b") == 3);
  CHECK(vocabulary.id_of("d") == Vocabulary::kUnknown);
  CHECK(vocabulary.id_of("<end>") == Vocabulary::kEnd);
  CHECK(vocabulary.has("c"));
  CHECK_FALSE(vocabulary.has("d"));
  CHECK(vocabulary.word(4) == "c");
  CHECK_FAILS(UserError, vocabulary.word(5), "there is no word 5 among 5");
  CHECK_FAILS(UserError, vocabulary.word(-1), "there is no word -1 among 5");
  // As frequent: lower bytes first, however the words came.
  CHECK(Vocabulary(counts_of({"z", "y", "\xc3\xa9", "Z"}), {}).words() ==
        Words{"<unk>", "<end>", "Z", "y", "z", "\xc3\xa9"});
}

TEST_CASE("a vocabulary ends at its size, at min_count, or with the text", "[text]") {
  CHECK(Vocabulary(counts(), {.size = 3}).words() == Words{"<unk>", "<end>", "a"});
  CHECK(Vocabulary(counts(), {.size = 100}).size() == 6);
  CHECK(Vocabulary(counts(), {.size = 0}).size() == 6);
  CHECK(Vocabulary(counts(), {.size = 0, .min_count = 2}).words() == Words{"<unk>", "<end>", "a", "b"});
  CHECK(Vocabulary(counts(), {.size = 3, .min_count = 2}).size() == 3);
  CHECK(Vocabulary(counts(), {.size = 0, .min_count = 3}).size() == 3);
}

TEST_CASE("a vocabulary that cannot be is refused", "[text]") {
  for (const Index size : {1, 2, -1})
    CHECK_FAILS(UserError, Vocabulary(counts(), {.size = size}), "[vocabulary] size must");
  CHECK_FAILS(UserError, Vocabulary(counts(), {.size = 1}), "\"<unk>\" and \"<end>\" take two places");
  CHECK_FAILS(UserError, Vocabulary(counts(), {.size = 9, .min_count = 0}), "[vocabulary] min_count must");
  CHECK_FAILS(UserError, Vocabulary(WordCounts(), {}), "[vocabulary] the text has no word");
  CHECK_FAILS(UserError, Vocabulary(counts_of({"<unk>", "<end>"}), {}), "the text has no word");
  CHECK_FAILS(UserError, Vocabulary(counts(), {.size = 9, .min_count = 4}),
              "no word occurs 4 times (min_count); the most frequent, \"a\", occurs 3 times");
}

TEST_CASE("words become numbers, those without one are counted", "[text]") {
  const Vocabulary vocabulary(counts_of({"a", "a", "b", "<unk>", "<unk>", "<unk>"}), {});
  CHECK(vocabulary.size() == 4);  // the special word of the text is the special word
  const datasets::EncodedText text = vocabulary.encode(Words{"b", "c", "a", "<unk>", "<end>"});
  CHECK(text.ids == std::vector<std::int32_t>{3, 0, 2, 0, 1});
  CHECK(text.unknown == 2);
  CHECK(vocabulary.decode(text.ids) == Words{"b", "<unk>", "a", "<unk>", "<end>"});
}

TEST_CASE("a vocabulary is kept as JSON", "[text]") {
  const Vocabulary vocabulary(counts_of({"\"", "\\", "\xc3\xa9", "\t", "\n"}), {});
  const Vocabulary again = Vocabulary::from_json(vocabulary.to_json(), "weights");
  CHECK(again.words() == vocabulary.words());
  CHECK(again.id_of("\xc3\xa9") == vocabulary.id_of("\xc3\xa9"));
  Words many{"<unk>", "<end>"};
  for (int i = 0; i < 5000; ++i) many.push_back("w" + std::to_string(i));
  CHECK(Vocabulary::from_json(Vocabulary(many, "list").to_json(), "weights").words() == many);
  CHECK(Vocabulary::from_json(R"(["<unk>","<end>","a"])", "weights").id_of("a") == 2);

  const auto read = [](const char* text) { return Vocabulary::from_json(text, "weights"); };
  CHECK_FAILS(UserError, read("[\"<unk>\""), "[weights] the vocabulary");
  CHECK_FAILS(UserError, read("3"), "[weights] the vocabulary is no list of words");
  CHECK_FAILS(UserError, read(R"(["<unk>",7,"a"])"), "[weights] word 1 of the vocabulary is no string");
  CHECK_FAILS(UserError, read(R"(["<unk>","<end>"])"), "[weights] a vocabulary of 2 words, expected 3 to");
  CHECK_FAILS(UserError, read(R"(["<unk>","a","<end>"])"),
              "the vocabulary begins with \"<unk>\" and \"a\", expected <unk> and <end>");
  CHECK_FAILS(UserError, read(R"(["<unk>","<end>","a",""])"), "word 3 of the vocabulary is empty");
  CHECK_FAILS(UserError, read(R"(["<unk>","<end>","a","b","a"])"),
              "words 2 and 4 of the vocabulary are both \"a\"");
}
