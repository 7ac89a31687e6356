#include "data/class_order.h"

#include <algorithm>
#include <numeric>

namespace tandem::datasets {

namespace {

// Indices of `names` in sorted order; stable.
std::vector<Index> places_by_name(const std::vector<std::string>& names) {
  std::vector<Index> places(names.size());
  std::iota(places.begin(), places.end(), Index{0});
  std::ranges::stable_sort(
      places, {}, [&](Index at) -> const std::string& { return names[static_cast<std::size_t>(at)]; });
  return places;
}

}  // namespace

std::optional<std::vector<Index>> class_order(const std::vector<std::string>& theirs,
                                              const std::vector<std::string>& ours) {
  if (theirs.size() != ours.size() || theirs == ours) return {};
  const std::vector<Index> there = places_by_name(theirs), here = places_by_name(ours);
  std::vector<Index> order(ours.size());
  const std::string* last = nullptr;
  for (std::size_t k = 0; k < here.size(); ++k) {
    const std::string& name = ours[static_cast<std::size_t>(here[k])];
    if (name != theirs[static_cast<std::size_t>(there[k])]) return {};
    if (last && name == *last && !name.empty()) return {};
    order[static_cast<std::size_t>(here[k])] = there[k];
    last = &name;
  }
  return order;
}

}  // namespace tandem::datasets
