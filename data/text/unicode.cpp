#include "data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tandem::datasets {

namespace {

constexpr char32_t kAscii = 0x80, kReplacement = 0xFFFD;
constexpr std::ptrdiff_t kLongest = 4;  // bytes of a character

}  // namespace

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte < kAscii) [[likely]]
    return {byte, 1};
  utf8proc_int32_t value = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      std::min(std::ssize(text), kLongest), &value);
  if (bytes <= 0) return {kReplacement, 1};
  return {static_cast<char32_t>(value), static_cast<std::size_t>(bytes)};
}

void append_character(std::string& text, char32_t character) {
  std::array<utf8proc_uint8_t, kLongest> bytes;
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

bool in_words(char32_t c) {
  if (c < kAscii) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

bool is_space(char32_t c) {
  if (c < kAscii) return c == ' ' || (c >= '\t' && c <= '\r');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

char32_t lower_case(char32_t c) {
  if (c < kAscii) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    append_character(lower, lower_case(next.value));
    text.remove_prefix(next.bytes);
  }
  return lower;
}

}  // namespace tandem::datasets
