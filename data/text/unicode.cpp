#include "data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tandem::datasets {

namespace {

constexpr char32_t kAscii = 0x80, kReplacement = 0xFFFD;
constexpr std::ptrdiff_t kLongest = 4;  // bytes of a character

bool category_within(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= first && category <= last;
}

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }

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

std::size_t unfinished_bytes(std::string_view text) {
  const std::size_t most = std::min<std::size_t>(text.size(), kLongest - 1);
  for (std::size_t count = 1; count <= most; ++count) {
    const std::string_view end = text.substr(text.size() - count);
    const auto first = static_cast<unsigned char>(end[0]);
    if (first < kAscii) return 0;
    if (first < 0xC0) continue;  // continues a character
    // Unfinished if continuation bytes complete it; the first of them decides about validity.
    for (const char next : {'\x80', '\xA0'}) {
      std::string whole(end);
      while (whole.size() < static_cast<std::size_t>(kLongest)) {
        whole += whole.size() == 1 ? next : '\x80';
        if (first_character(whole).bytes == whole.size()) return count;
      }
    }
    return 0;
  }
  return 0;
}

std::string unicode_version() { return utf8proc_unicode_version(); }

bool is_letter(char32_t c) {
  if (c < kAscii) return is_ascii_letter(c);
  return category_within(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_number(char32_t c) {
  if (c < kAscii) return is_ascii_digit(c);
  return category_within(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t c) { return category_within(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO); }

bool is_nonspacing_mark(char32_t c) {
  return c >= kAscii && category_within(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN);
}

bool is_control(char32_t c) { return category_within(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF); }

bool in_words(char32_t c) {
  if (c < kAscii) return is_ascii_letter(c) || is_ascii_digit(c);
  return category_within(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NO);
}

bool is_space(char32_t c) {
  if (c < kAscii) return c == ' ' || (c >= '\t' && c <= '\r');
  return category_within(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_white_space(char32_t c) { return is_space(c) || c == 0x85; }

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

std::u32string decomposed(std::u32string_view text) {
  // The longest canonical decomposition of a character has four.
  std::u32string all;
  std::array<utf8proc_int32_t, 8> parts;
  for (const char32_t c : text) {
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, nullptr);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      all += static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
  }
  // Canonical order: marks of a sequence are sorted by their class, stably.
  const auto order = [](char32_t c) {
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  };
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first;
    while (end < all.size() && order(all[end]) != 0) ++end;
    std::ranges::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(first),
                             all.begin() + static_cast<std::ptrdiff_t>(end), {}, order);
    first = end + 1;
  }
  return all;
}

}  // namespace tandem::datasets
