#include "core/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace tandem {

namespace {

struct Character {
  std::size_t bytes = 1;
  char32_t code = 0;
  bool valid = false;  // UTF-8: shortest form, no surrogate, at most U+10FFFF
};

// The first character of a non-empty text.
Character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3FU);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {bytes, code, true};
}

// Calls `use(character, its bytes)` for each character.
template <class Use>
void each_character(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const Character character = first_of(text);
    use(character, text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
}

bool obeyed(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || separator || direction;
}

std::string escaped(std::string_view text, bool lines) {
  std::string shown;
  shown.reserve(text.size());
  each_character(text, [&](const Character& character, std::string_view bytes) {
    const char32_t code = character.code;
    if (!character.valid) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else if (!obeyed(code) || (lines && (code == '\n' || code == '\t'))) {
      shown += bytes;
    } else if (code == '\n' || code == '\t' || code == '\r') {
      shown += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    } else {
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", static_cast<unsigned>(code));
    }
  });
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string printable_lines(std::string_view text) { return escaped(text, true); }

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  each_character(text, [&](const Character& character, std::string_view bytes) {
    valid += character.valid ? bytes : std::string_view("\uFFFD");
  });
  return valid;
}

std::string shortened(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace tandem
