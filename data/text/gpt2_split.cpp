#include "data/text/gpt2_split.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "data/text/unicode.h"

namespace tandem::datasets {

namespace {

constexpr std::array<std::string_view, 7> kContractions{"'s", "'d", "'m", "'t", "'ll", "'ve", "'re"};

enum class PieceClass : std::uint8_t { letter, number, white_space, other };

PieceClass class_of(char32_t c) {
  if (is_letter(c)) return PieceClass::letter;
  if (is_number(c)) return PieceClass::number;
  return is_white_space(c) ? PieceClass::white_space : PieceClass::other;
}

// End of the run of the class that begins at `at`; `last` becomes the place of its last character.
std::size_t run_end(std::string_view text, std::size_t at, PieceClass of, std::size_t& last) {
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (class_of(next.value) != of) break;
    last = at;
    at += next.bytes;
  }
  return at;
}

}  // namespace

std::string_view first_piece(std::string_view text) {
  if (text.empty()) return text;
  for (const std::string_view contraction : kContractions)
    if (text.starts_with(contraction)) return text.substr(0, contraction.size());
  const std::size_t spaces = text[0] == ' ' ? 1 : 0;
  const PieceClass kind = class_of(first_character(text.substr(spaces)).value);
  std::size_t last = 0;
  if (spaces < text.size() && kind != PieceClass::white_space)
    return text.substr(0, run_end(text, spaces, kind, last));
  const std::size_t end = run_end(text, 0, PieceClass::white_space, last);
  return text.substr(0, end == text.size() || last == 0 ? end : last);
}

}  // namespace tandem::datasets
