// Holdout split of training items.
#pragma once

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace tandem::datasets {

// Takes the last items of `train`: `fraction` of `all`, rounded down. `what`: "lines". Throws UserError in
// the name of `where`, naming `key`, when either part becomes empty.
template <class Item>
std::vector<Item> set_aside(std::vector<Item>& train, std::size_t all, double fraction,
                            const std::string& where, std::string_view key, std::string_view what) {
  const auto count = static_cast<std::size_t>(std::floor(fraction * static_cast<double>(all)));
  require(fraction == 0.0 || (count > 0 && count < train.size()), where,
          "{} of {} of its {} {} leaves {} without any; set a separate file, or 0", key, fraction, all, what,
          count == 0 ? "it" : "the training part");
  const auto first = train.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<Item> taken(std::make_move_iterator(first), std::make_move_iterator(train.end()));
  train.erase(first, train.end());
  return taken;
}

}  // namespace tandem::datasets
