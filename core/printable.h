// Text of others – paths, keys, names in files – made fit to be shown: a terminal obeys what it is sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// On one line: control characters, separators of lines and paragraphs, and characters that turn the direction
// of writing stand as JSON escapes them ("\n", "\u001b"), so that a text of JSON keeps its meaning; bytes
// that are no UTF-8 stand as "\xff". Applied twice it changes nothing more.
std::string printable(std::string_view text);

// The same for a text of several lines: line breaks and tabs stay.
std::string printable_lines(std::string_view text);

// With U+FFFD for every byte that is no UTF-8.
std::string valid_utf8(std::string_view text);

// At most `bytes` bytes of it and an ellipsis for the rest; no character is cut.
std::string shortened(std::string_view text, std::size_t bytes);

}  // namespace tandem
