// Foreign text on a terminal.
#include "core/printable.h"

#include <catch2/catch.hpp>

using namespace tandem;

TEST_CASE("terminal escapes are shown escaped", "[printable]") {
  CHECK(printable("größer – 大きい\U0001F600") == "größer – 大きい\U0001F600");
  CHECK(printable("a\x1b[31mred") == "a\\u001b[31mred");
  CHECK(printable("\r\n\t\a") == "\\r\\n\\t\\u0007");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\u0000b");
  CHECK(printable("\x7f\u0080\u009b31m\u00a0") == "\\u007f\\u0080\\u009b31m\u00a0");
  CHECK(printable("\u202egpj.exe\u2066\u200f\u2028") == "\\u202egpj.exe\\u2066\\u200f\\u2028");
  CHECK(printable_lines("a\n\tb\r\x1b") == "a\n\tb\\r\\u001b");
  const std::string once = printable("\x1b\n\xff\u009b");
  CHECK(printable(once) == once);
}

TEST_CASE("bytes that are no UTF-8 are shown one by one", "[printable]") {
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("a\x9b"
                  "31m") == "a\\x9b31m");        // a lone C1 control of another encoding
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");  // too long a form
  CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");                    // cut off
  CHECK(printable("\xe2\x82z") == "\\xe2\\x82z");
  CHECK(printable("\xf4\x8f\xbf\xbf") == "\xf4\x8f\xbf\xbf");
  CHECK(valid_utf8("a\xffß") == "a\uFFFDß");
  CHECK(valid_utf8("a\x1bß") == "a\x1bß");
}

TEST_CASE("a text is shortened between two characters", "[printable]") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc…");
  CHECK(shortened("aßb", 2) == "a…");
  CHECK(shortened("aßb", 3) == "aß…");
  CHECK(shortened("\x80\x80\x80", 1) == "…");
}
