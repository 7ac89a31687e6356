// Confusion matrix: counts of true against predicted classes, and the overlap of each class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::metrics {

// Counts of true class (row) against predicted class (column).
struct ConfusionMatrix {
  ConfusionMatrix() = default;  // no classes
  // Throws UserError when there are too many classes.
  explicit ConfusionMatrix(Index classes);

  void add(Index truth, Index predicted) { ++counts[static_cast<std::size_t>(truth * classes + predicted)]; }
  std::int64_t at(Index truth, Index predicted) const {
    return counts[static_cast<std::size_t>(truth * classes + predicted)];
  }

  // Comma-separated values with a header of class names (indices without names).
  std::string csv(const std::vector<std::string>& class_names) const;
  std::vector<std::vector<std::int64_t>> rows() const;
  std::int64_t right() const;  // sum of the diagonal

  Index classes = 0;
  std::vector<std::int64_t> counts{};  // [classes, classes]
};

// Overlap of the true and the predicted samples (pixels) of a class, from its true positives, false positives
// and false negatives. Absent for a class that is neither true nor predicted for any sample.
struct Overlap {
  std::optional<double> iou;   // TP/(TP + FP + FN), the Jaccard index
  std::optional<double> dice;  // 2·TP/(2·TP + FP + FN)
};
std::vector<Overlap> overlaps_of(const ConfusionMatrix& confusion);
// The mean over the classes with an overlap; 0 if there are none.
double mean_iou(const std::vector<Overlap>& overlaps);
double mean_dice(const std::vector<Overlap>& overlaps);

}  // namespace tandem::metrics
