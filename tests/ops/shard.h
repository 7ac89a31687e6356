// A share of many rows, for parallel processes that check all of them together.
#pragma once

#include <charconv>
#include <string_view>

#include "core/error.h"

namespace tandem::test {

// "i/n", with 1 ≤ i ≤ n: of rows counted from 0 every n-th, from the (i-1)-th on, so that dear rows beside
// each other are shared out.
class Shard {
 public:
  // Throws UserError for anything else.
  explicit Shard(std::string_view text) {
    const std::size_t slash = text.find('/');
    const bool is_sound = slash != text.npos && read(text.substr(0, slash), number_) &&
                          read(text.substr(slash + 1), of_) && number_ >= 1 && number_ <= of_;
    require(is_sound, "TANDEM_TEST_SHARD", "is \"{}\", expected i/n with i from 1 to n: 3/8", text);
  }

  bool has(std::size_t row) const { return row % of_ == number_ - 1; }

 private:
  static bool read(std::string_view digits, std::size_t& value) {
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    return error == std::errc() && end == digits.end();
  }

  std::size_t number_ = 1, of_ = 1;
};

}  // namespace tandem::test
