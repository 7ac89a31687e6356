// Display width of text on a terminal, in columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// For UTF-8 with one column per character.
inline std::size_t text_width(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

inline std::string padded(const std::string& text, std::size_t to) {
  return text + std::string(to > text_width(text) ? to - text_width(text) : 0, ' ');
}

}  // namespace tandem
