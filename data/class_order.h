// Reordering of class names that two sources list in different orders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// For each index of `ours`, the index of the same name in `theirs`. Empty if the orders are equal, the sets
// of names differ, or a name repeats. "" may repeat: it is a label without a class.
std::optional<std::vector<Index>> class_order(const std::vector<std::string>& theirs,
                                              const std::vector<std::string>& ours);

// Moves element i to order[i]. Both vectors have the same size.
template <class T>
std::vector<T> in_order(const std::vector<T>& own, const std::vector<Index>& order) {
  std::vector<T> moved(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) moved[static_cast<std::size_t>(order[i])] = own[i];
  return moved;
}

}  // namespace tandem::datasets
