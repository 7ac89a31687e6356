// Lists of names in messages.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// "a, b, c, d and 7 more"
inline std::string listed(const std::vector<std::string>& names, std::size_t most = 4) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace tandem
