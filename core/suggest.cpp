#include "core/suggest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tandem {

namespace {

constexpr std::size_t kLongestWord = 256;  // nothing longer is a name that was mistyped

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
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
  const int allowed = 1 + static_cast<int>(word.size()) / 3;
  int best = allowed + 1;
  const std::string* result = nullptr;
  for (const std::string& name : known) {
    if (name.size() > kLongestWord) continue;
    const int distance = edit_distance(word, name);
    // Names that share no letter with the word at their place are not near, however short both are.
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
