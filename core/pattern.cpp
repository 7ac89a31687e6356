#include "core/pattern.h"

#include <algorithm>

#include "core/error.h"

namespace tandem {

namespace {

constexpr std::size_t kMaxCharacters = 256;
constexpr std::size_t kMaxRepeats = 32;

// Upper bound on copies of any part: {n} copies its operand, and nested counts multiply.
std::size_t repeats(const std::string& text) {
  std::size_t product = 1;
  for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
    std::size_t count = 0, most = 1;
    for (std::size_t i = at + 1; i < text.size() && text[i] != '}'; ++i) {
      const bool digit = text[i] >= '0' && text[i] <= '9';
      count = digit ? std::min(10 * count + static_cast<std::size_t>(text[i] - '0'), kMaxRepeats + 1) : 0;
      most = std::max(most, count);
    }
    product = std::min(product * most, kMaxRepeats + 1);
  }
  return product;
}

// Uses a search in time proportional to text times pattern if the library has one; the default takes
// exponential time for some patterns, such as (a|a)*b.
constexpr std::regex::flag_type kSyntax =
#ifdef __GLIBCXX__
    std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
    std::regex::ECMAScript;
#endif

}  // namespace

std::regex compile_pattern(const std::string& text) {
  require(text.size() <= kMaxCharacters, "", "a regular expression of {} characters, at most {} are allowed",
          text.size(), kMaxCharacters);
  require(repeats(text) <= kMaxRepeats, "",
          "\"{}\" repeats parts more than {} times; use + or * for many repetitions", text, kMaxRepeats);
  try {
    return std::regex(text, kSyntax);
  } catch (const std::regex_error& error) {
    throw UserError("", fmt::format("\"{}\" is not a regular expression: {}", text, error.what()));
  }
}

}  // namespace tandem
