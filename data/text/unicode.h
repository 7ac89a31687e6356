// Unicode characters: classes and lower case (utf8proc 2.8, Unicode 15).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::datasets {

// The first character of a text and its number of bytes, 0 for an empty text. An invalid UTF-8 byte is
// U+FFFD, of one byte.
struct Character {
  char32_t value = 0;
  std::size_t bytes = 0;
};
Character first_character(std::string_view text);
void append_character(std::string& text, char32_t character);

// Number of bytes at the end of a text that begin a character of valid UTF-8 and lack its last bytes.
std::size_t unfinished_bytes(std::string_view text);

// Of Unicode's tables, such as "15.0.0".
std::string unicode_version();

// The categories L*, N* and P*, and Mn.
bool is_letter(char32_t character);
bool is_number(char32_t character);
bool is_punctuation(char32_t character);
bool is_nonspacing_mark(char32_t character);
// Cc and Cf: control and format characters, including tabs and line ends.
bool is_control(char32_t character);
// True for letters, marks and numbers of any script.
bool in_words(char32_t character);
// True for white space, including U+00A0, U+202F and U+3000.
bool is_space(char32_t character);
// The property White_Space: the same, and U+0085.
bool is_white_space(char32_t character);

// Maps each character on its own: "Σ" becomes "σ" also at the end of a word. Invalid UTF-8 bytes become
// U+FFFD.
char32_t lower_case(char32_t character);
std::string lower_case(std::string_view text);
// The canonical decomposition (NFD).
std::u32string decomposed(std::u32string_view text);

}  // namespace tandem::datasets
