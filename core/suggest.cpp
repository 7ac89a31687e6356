#include "core/suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/synonyms.h"

namespace tandem {

namespace {

constexpr std::size_t kLongestWord = 256;  // longer words are not mistyped names

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

// Names with different numbers mean different things, however similar: fp16 and fp32, resnet18 and resnet50.
// One digit may be a typo.
bool other_numbers(std::string_view a, std::string_view b) {
  const std::string first = digits_of(a), second = digits_of(b);
  return !first.empty() && !second.empty() && edit_distance(first, second) > 1;
}

// The name that equals the word except for case and separators, or else a synonym of it.
std::string same_thing(std::string_view word, std::span<const std::string> known) {
  for (const std::string& synonym : synonyms_of(word)) {
    const auto same = [&](const std::string& name) {
      return name.size() <= kLongestWord && !synonym.empty() && squeezed(name) == synonym;
    };
    if (const auto found = std::ranges::find_if(known, same); found != known.end()) return *found;
  }
  return {};
}

// The name that contains the word between underscores: "batch_norm" for "norm".
std::string whole_part(std::string_view word, std::span<const std::string> known) {
  const auto between = [](std::string_view text) { return fmt::format("_{}_", lowered(text)); };
  const std::string part = between(word);
  const auto has_it = [&](const std::string& name) {
    return name.size() <= kLongestWord && between(name).find(part) != std::string::npos;
  };
  const auto found = std::ranges::find_if(known, has_it);
  return found == known.end() ? std::string() : *found;
}

}  // namespace

int edit_distance(std::string_view first, std::string_view second) {
  const std::string a = lowered(first), b = lowered(second);
  // Rows i−2, i−1 and i of the distance table.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitution = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  if (word.empty() || word.size() > kLongestWord) return {};
  if (std::string name = same_thing(word, known); !name.empty()) return name;
  if (std::string name = whole_part(word, known); !name.empty() && word.size() >= 3) return name;
  // Two changes in three letters make another word.
  const int allowed = word.size() <= 3 ? 1 : 1 + static_cast<int>(word.size()) / 3;
  int best = allowed + 1;
  const std::string* result = nullptr;
  for (const std::string& name : known) {
    if (name.size() > kLongestWord || other_numbers(word, name)) continue;
    const int distance = edit_distance(word, name);
    // Names without a common letter at the same place are not near, however short.
    if (distance < best && distance < static_cast<int>(std::max(word.size(), name.size()))) {
      best = distance;
      result = &name;
    }
  }
  if (result) return *result;
  if (word.size() < 3) return {};
  const std::string part = lowered(word);
  for (const std::string& name : known) {
    const std::string whole = lowered(name);
    if (whole.find(part) != std::string::npos || (whole.size() >= 3 && part.find(whole) != std::string::npos))
      return name;
  }
  return {};
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string name = nearest(word, known);
  return name.empty() ? std::string() : "; did you mean \"" + name + "\"?";
}

}  // namespace tandem
