// Words and their pronunciations, from a small file in the form of Festival's.
#include "samples/cmu_dictionary.h"

#include "samples/split.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::PairTexts;
using datasets::read_cmu_dictionary;
using datasets::testing::TempFolder;

namespace {

PairTexts read(const std::string& text) {
  const TempFolder folder;
  datasets::testing::write_file(folder / "dict.out", {text.begin(), text.end()});
  return read_cmu_dictionary(folder / "dict.out");
}

// "w0" … of which some are in every part.
std::string many() {
  std::string text = "MNCL\n";
  for (int i = 0; i < 200; ++i) text += "(\"w" + std::to_string(i) + "\" nil (((w) 1)))\n";
  return text;
}

const datasets::TextPair* find(const std::vector<datasets::TextPair>& pairs, const std::string& word) {
  for (const auto& pair : pairs)
    if (pair.source == word) return &pair;
  return nullptr;
}

}  // namespace

TEST_CASE("pronunciations of a word stand together, without syllables and stress", "[pairs]") {
  const PairTexts texts = read(many() +
                               "(\"abstract\" n (((ae b) 1) ((s t r ae k t) 0)))\n"
                               "(\"other\" nil (((ah dh) 1) ((er) 0)))\n"
                               "(\"abstract\" v (((ax b) 0) ((s t r ae k t) 1)))\n"
                               "(\"abstract\" j (((ae b) 0) ((s t r ae k t) 1)))\n");
  REQUIRE(datasets::split_of("abstract") == datasets::TextSplit::train);
  const datasets::TextPair* const found = find(texts.train, "abstract");
  REQUIRE(found);
  CHECK(found->targets == std::vector<std::string>{"ae b s t r ae k t", "ax b s t r ae k t"});
  CHECK(texts.train.size() + texts.validation.size() + texts.test.size() == 202);
  for (const auto& pair : texts.validation)
    CHECK(datasets::split_of(pair.source) == datasets::TextSplit::validation);
  for (const auto& pair : texts.test) CHECK(datasets::split_of(pair.source) == datasets::TextSplit::test);
  CHECK(find(texts.train, "w0"));  // the file's order
  CHECK(texts.train.front().source == "w0");
}

TEST_CASE("invalid dictionary entries are refused with their line", "[pairs]") {
  for (const char* line :
       {"word", "(\"\" nil (((w) 1)))", "(\"w nil (((w) 1)))", "(\"w\" (((w) 1)))", "(\"w\" nil ())",
        "(\"w\" nil (((w) 1))", "(\"w\" nil (((w) 1))))", "(\"w\" nil (((w))))", "(\"w\" nil ((() 1)))",
        "(\"w\" nil nil)", "(\"w\" nil (((w) 1))) more", "", "(", "(\"w\" nil (((w"}) {
    CAPTURE(line);
    CHECK_FAILS(UserError, read("MNCL\n" + std::string(line) + "\n"), "dict.out:2] ");
  }
  CHECK_FAILS(UserError, read("MNCL\n(\"w\xFF\" nil (((w) 1)))\n"), "dict.out:2] byte 4 is 0xff");
  CHECK_FAILS(UserError, read("MNCL\n(\"w\" nil (((w) 1)))\n"), "each split needs at least one");
  CHECK_FAILS(UserError, read(""), "is empty");
  CHECK_FAILS(UserError, read_cmu_dictionary("/nowhere/dict.out"), "apt install festlex-cmu");
}
