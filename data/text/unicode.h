// Characters of Unicode: what they are, and their lower case (utf8proc; of its 2.8, Unicode 15).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::datasets {

// The first character of a text, and how many bytes it has: none of an empty text. A byte that is no UTF-8 is
// U+FFFD, of one byte.
struct Character {
  char32_t value = 0;
  std::size_t bytes = 0;
};
Character first_character(std::string_view text);
void append_character(std::string& text, char32_t character);

// Letters, marks and numbers of every script.
bool in_words(char32_t character);
// White space, U+00A0, U+202F and U+3000 among it.
bool is_space(char32_t character);

// Each character by itself: "Σ" is "σ" at the end of a word, too. Bytes that are no UTF-8 are U+FFFD.
char32_t lower_case(char32_t character);
std::string lower_case(std::string_view text);

}  // namespace tandem::datasets
