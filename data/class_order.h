// Classes that two sides list in another order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// Of each place in `ours` the place in `theirs` of the same name, where `ours` are `theirs` in another order;
// nothing where they are in the same one, are others, or a name stands twice. "" may: it names a label that
// no class has.
std::optional<std::vector<Index>> class_order(const std::vector<std::string>& theirs,
                                              const std::vector<std::string>& ours);

// What stands at place i goes to order[i]. `own` has as many values as `order`.
template <class T>
std::vector<T> in_order(const std::vector<T>& own, const std::vector<Index>& order) {
  std::vector<T> moved(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) moved[static_cast<std::size_t>(order[i])] = own[i];
  return moved;
}

}  // namespace tandem::datasets
