// Text as pieces, and back.
#include "data/text/tokenizer.h"

#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using Pieces = std::vector<std::string>;

TEST_CASE("words: lower case, apostrophes and numbers whole, full stops apart", "[text]") {
  CHECK(datasets::words_of("It's A  test, v3.2 (really).") ==
        Pieces{"it's", "a", "test", "v3.2", "really", "."});
  CHECK(datasets::words_of("a . . b.") == Pieces{"a", ".", "b", "."});
  CHECK(datasets::words_of("") == Pieces{});
  CHECK(datasets::words_of("caf\xc3\xa9") == Pieces{"caf\xc3\xa9"});
}

TEST_CASE("a tokenizer makes pieces of a text, and a text of pieces", "[text]") {
  const auto words = datasets::tokenizers().make("words", {});
  CHECK(words->name() == "words");
  CHECK(words->encode("A b. C") == Pieces{"a", "b", ".", "c"});
  CHECK(words->decode(Pieces{"a", "b", ".", "c"}) == "a b. c");
  CHECK(words->decode(Pieces{}) == "");

  const auto spaces = datasets::tokenizers().make("spaces", {});
  CHECK(spaces->name() == "spaces");
  CHECK(spaces->encode(" the <unk>\tof  N , \r\n") == Pieces{"the", "<unk>", "of", "N", ","});
  CHECK(spaces->encode("\t ") == Pieces{});
  CHECK(spaces->decode(Pieces{"the", "<unk>", "."}) == "the <unk> .");

  const auto characters = datasets::tokenizers().make("characters", {});
  CHECK(characters->name() == "characters");
  const std::string text = "Na \xc3\xaf\xe2\x82\xac\xf0\x9f\x98\x80.";
  CHECK(characters->encode(text) ==
        Pieces{"N", "a", " ", "\xc3\xaf", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "."});
  CHECK(characters->decode(characters->encode(text)) == text);
  CHECK_FAILS(UserError, datasets::tokenizers().make("word", {}), "words");
}

TEST_CASE("bytes that are no UTF-8 count as U+FFFD", "[text]") {
  const std::string broken = "a\xff z\xe2\x82";  // 0xff never begins; the last sequence is cut
  CHECK(datasets::tokenizers().make("characters", {})->encode(broken) ==
        Pieces{"a", "\uFFFD", " ", "z", "\uFFFD", "\uFFFD"});
  CHECK(datasets::tokenizers().make("words", {})->encode(broken) == Pieces{"a\uFFFD", "z\uFFFD\uFFFD"});
}

TEST_CASE("what is no UTF-8 is told with its place", "[text]") {
  CHECK_NOTHROW(datasets::require_utf8("caf\xc3\xa9", "menu:1"));
  CHECK_NOTHROW(datasets::require_utf8("", "menu:1"));
  CHECK_FAILS(UserError, datasets::require_utf8("caf\xe9 ol", "menu:7"),
              "[menu:7] byte 4 is 0xe9, which is no UTF-8; convert the file (iconv -t UTF-8)");
  CHECK_FAILS(UserError, datasets::require_utf8("\xc0\x80", "menu:7"), "byte 1 is 0xc0");       // overlong
  CHECK_FAILS(UserError, datasets::require_utf8("a\xed\xa0\x80", "menu:7"), "byte 2 is 0xed");  // a surrogate
}
