// Counts of the classes that were taken for each class.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::tasks {

// Counts of true class (row) against predicted class (column).
struct ConfusionMatrix {
  ConfusionMatrix() = default;  // of no classes
  // Throws UserError when there are too many classes.
  explicit ConfusionMatrix(Index classes);

  void add(Index truth, Index predicted) { ++counts[static_cast<std::size_t>(truth * classes + predicted)]; }
  std::int64_t at(Index truth, Index predicted) const {
    return counts[static_cast<std::size_t>(truth * classes + predicted)];
  }

  // Comma-separated values with a header of class names (numbers where there are none).
  std::string csv(const std::vector<std::string>& class_names) const;
  // A list of rows.
  nlohmann::ordered_json json() const;

  Index classes = 0;
  std::vector<std::int64_t> counts{};  // [classes, classes]
};

}  // namespace tandem::tasks
