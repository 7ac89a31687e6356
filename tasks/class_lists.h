// Comparison of the classes of weights and of data: weights identify them by number, files by name.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

struct ClassLists {
  std::vector<std::string> theirs, ours;  // of the weights, and of the data, by label
  bool by_value = false;                  // compare by the value in masks instead of the name
};

// Note for the user that the data's classes are reordered to match the weights.
std::string note_of_order(const ClassLists& classes);

// Throws UserError with both lists if they differ.
void require_same(const ClassLists& classes, const std::string& weights, const std::string& data);

}  // namespace tandem::tasks
