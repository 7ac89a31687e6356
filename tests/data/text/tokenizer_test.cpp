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

TEST_CASE("words of any script: case, spaces, quotes and dashes of Unicode", "[text]") {
  CHECK(datasets::words_of("\u00C4RGER \u00C9t\u00E9 \u0416\u0423\u041A \u03A3\u0391") ==
        Pieces{"\u00E4rger", "\u00E9t\u00E9", "\u0436\u0443\u043A", "\u03C3\u03B1"});
  // U+00A0, U+202F and U+3000 are spaces, and end a sentence as spaces do.
  CHECK(datasets::words_of("10\u00A0km. b\u202F!\u3000c.\u00A0d") ==
        Pieces{"10", "km", ".", "b", "c", ".", "d"});
  CHECK(datasets::words_of(
            "\u201Cso\u201D \u2018it\u2019 \u2013 a\u2014b \u00ABc\u00BB\u2026 d\u20AC \U0001F600") ==
        Pieces{"so", "it", "a", "b", "c", "d"});
  CHECK(datasets::words_of("don\u2019t re\u00ADturn e\u0301") == Pieces{"don't", "return", "e\u0301"});
  CHECK(datasets::words_of("(end.\u201D next.)") == Pieces{"end", ".", "next."});
  CHECK(datasets::words_of("a.\tb.\nc") == Pieces{"a", ".", "b", ".", "c"});
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
  CHECK(datasets::tokenizers().make("words", {})->encode(broken) == Pieces{"a", "z"});
}

TEST_CASE("invalid UTF-8 is refused with its place", "[text]") {
  CHECK_NOTHROW(datasets::require_utf8("caf\xc3\xa9", "menu:1"));
  CHECK_NOTHROW(datasets::require_utf8("", "menu:1"));
  CHECK_FAILS(UserError, datasets::require_utf8("caf\xe9 ol", "menu:7"),
              "[menu:7] byte 4 is 0xe9, expected UTF-8; convert the file (iconv -t UTF-8)");
  CHECK_FAILS(UserError, datasets::require_utf8("\xc0\x80", "menu:7"), "byte 1 is 0xc0");       // overlong
  CHECK_FAILS(UserError, datasets::require_utf8("a\xed\xa0\x80", "menu:7"), "byte 2 is 0xed");  // a surrogate
}
