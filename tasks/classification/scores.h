// How well scores fit: accuracy, top-5, the mean loss, confusions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/classification/loss.h"
#include "tasks/metrics.h"

namespace tandem::tasks {

// Counts of true class (row) against predicted class (column).
struct ConfusionMatrix {
  Index classes = 0;
  std::vector<std::int64_t> counts;  // [classes, classes]

  // Comma-separated values with a header of class names (numbers where there are none).
  std::string csv(const std::vector<std::string>& class_names) const;
};

// Gathers figures over batches; every sample weighs the same, whatever its batch.
class ClassificationScores {
 public:
  // `loss` is kept by reference. Throws UserError when there are too many classes for a confusion matrix.
  ClassificationScores(const ClassificationLoss& loss, bool confusion);

  void add(const Tensor& output, const datasets::Batch& batch);
  // accuracy, top5 with more than five classes, loss.
  Metrics metrics() const;
  // Absent unless asked for.
  const ConfusionMatrix* confusion() const { return confusion_.classes > 0 ? &confusion_ : nullptr; }

 private:
  void count(const float* scores, std::int64_t label);

  const ClassificationLoss& loss_of_;
  std::int64_t samples_ = 0, first_ = 0, among_top_ = 0;
  double loss_ = 0.0, weight_ = 0.0;
  ConfusionMatrix confusion_;
};

}  // namespace tandem::tasks
