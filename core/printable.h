// Escaping of foreign text – paths, keys, names in files – for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// One line: escapes control characters, line and paragraph separators, and bidirectional controls as JSON
// does
// ("\n", "\u001b"), so that JSON text keeps its meaning; bytes that are not valid UTF-8 become "\xff".
// Idempotent.
std::string printable(std::string_view text);

// The same for several lines: keeps line breaks and tabs.
std::string printable_lines(std::string_view text);

// Replaces every byte that is not valid UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

// Truncates to at most `bytes` bytes and an ellipsis, at a character boundary.
std::string shortened(std::string_view text, std::size_t bytes);

}  // namespace tandem
