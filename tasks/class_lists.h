// Classes of weights beside those of data: weights know them by their numbers, files by their names.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

struct ClassLists {
  std::vector<std::string> theirs, ours;  // of the weights, and of the data, by label
  bool by_value = false;                  // what stands for a class in the files of masks, rather than a name
};

// What to tell where the data's classes are put in the order of the weights.
std::string note_of_order(const ClassLists& classes);

// Throws UserError with both lists unless they are the same.
void require_same(const ClassLists& classes, const std::string& weights, const std::string& data);

}  // namespace tandem::tasks
