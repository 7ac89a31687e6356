#include "tasks/class_lists.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/names.h"

namespace tandem::tasks {

namespace {

constexpr std::size_t kListedClasses = 12;

}  // namespace

std::string note_of_order(const ClassLists& classes) {
  return fmt::format("classes are in another order than in the weights: mapped by {} ({})",
                     classes.by_value ? "mask value" : "name", listed(classes.theirs, kListedClasses));
}

void require_same(const ClassLists& classes, const std::string& weights, const std::string& data) {
  const auto& [theirs, ours, by_value] = classes;
  if (theirs == ours) return;
  const auto [a, b] = std::ranges::mismatch(theirs, ours);
  const bool reordered = std::ranges::is_permutation(theirs, ours);
  throw UserError("",
                  fmt::format("{}: were trained on {}{}: {}; {} has: {}; the first that differs is number "
                              "{}, \"{}\" there and \"{}\" here, and weights know classes by their numbers{}",
                              weights, reordered ? "these classes in another order" : "other classes",
                              by_value ? ", by mask value" : "", listed(theirs, kListedClasses), data,
                              listed(ours, kListedClasses), a - theirs.begin(), a == theirs.end() ? "" : *a,
                              b == ours.end() ? "" : *b,
                              by_value && !reordered
                                  ? "; data.class_names can declare that other values mean the same classes"
                                  : ""));
}

}  // namespace tandem::tasks
