#include "metrics/bleu_tokens.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tandem::metrics {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// Printable ASCII characters, including the space, except letters, digits and ' , - .
bool stands_alone(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Length in bytes of the white space at `at`; 0 if there is none. White space is as in Python's str.split().
std::size_t white_space_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0), second = byte(1), third = byte(2);
  if ((first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20)) return 1;
  if (first == 0xc2) return second == 0x85 || second == 0xa0 ? 2 : 0;  // U+0085, U+00A0
  if (first == 0xe1) return second == 0x9a && third == 0x80 ? 3 : 0;   // U+1680
  if (first == 0xe3) return second == 0x80 && third == 0x80 ? 3 : 0;   // U+3000
  if (first != 0xe2) return 0;
  if (second == 0x81) return third == 0x9f ? 3 : 0;  // U+205F
  if (second != 0x80) return 0;
  const bool is_space = (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf;
  return is_space ? 3 : 0;  // U+2000 to U+200A, U+2028, U+2029, U+202F
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = white_space_at(text, i);
    if (space == 0) {
      word += text[i];
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
    i += std::max<std::size_t>(space, 1);
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string_view without_trailing_space(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = white_space_at(text, i);
    i += std::max<std::size_t>(space, 1);
    if (space == 0) end = i;
  }
  return text.substr(0, end);
}

// Replaces every `from`, from left to right; replacements are not searched again.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool found = text.substr(i, from.size()) == from;
    if (found) {
      result += to;
    } else {
      result += text[i];
    }
    i += found ? from.size() : 1;
  }
  return result;
}

// Puts `before`, a space and `behind` around and between neighbouring bytes that `matches` accepts. As with a
// regular expression, a byte belongs to its leftmost pair only: in "a..b", the pair (not a digit, point)
// leaves the second point alone. Bytes suffice because all searched characters are ASCII.
template <class Matches>
std::string spaced(const std::string& text, std::string_view before, std::string_view behind,
                   Matches matches) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool found = i + 1 < text.size() && matches(text[i], text[i + 1]);
    if (found) {
      ((((result += before) += text[i]) += ' ') += text[i + 1]) += behind;
    } else {
      result += text[i];
    }
    i += found ? 2 : 1;
  }
  return result;
}

std::string separated_13a(std::string_view segment) {
  std::string text = replaced(replaced(replaced(segment, "<skipped>", ""), "-\n", ""), "\n", " ");
  // This order turns &amp;lt; into "<" and &amp;quot; into &quot;.
  text = replaced(replaced(text, "&quot;", "\""), "&amp;", "&");
  text = replaced(replaced(text, "&lt;", "<"), "&gt;", ">");
  std::string apart = " ";
  for (const char c : text) {
    if (stands_alone(c)) {
      ((apart += ' ') += c) += ' ';
    } else {
      apart += c;
    }
  }
  apart += ' ';
  apart = spaced(apart, "", " ", [](char a, char b) { return !is_digit(a) && is_point(b); });
  apart = spaced(apart, " ", "", [](char a, char b) { return is_point(a) && !is_digit(b); });
  return spaced(apart, "", " ", [](char a, char b) { return is_digit(a) && b == '-'; });
}

}  // namespace

std::string_view name_of(BleuTokens tokens) {
  switch (tokens) {
    case BleuTokens::v13a:
      return "13a";
    case BleuTokens::none:
      return "none";
  }
  throw InternalError("bleu", "unknown tokenisation");
}

std::vector<std::string> bleu_tokens(std::string_view segment, BleuTokens tokens) {
  const std::string_view text = without_trailing_space(segment);
  return tokens == BleuTokens::v13a ? split(separated_13a(text)) : split(text);
}

}  // namespace tandem::metrics
