// Metrics of a classifier's scores: accuracy, top-5, mean loss, confusion matrix.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "metrics/confusion_matrix.h"
#include "tasks/breakdown.h"
#include "tasks/classification/loss.h"
#include "tasks/metrics.h"
#include "tasks/record.h"

namespace tandem::tasks {

// Accumulates metrics over batches; every sample has the same weight in any batch.
class ClassificationScores {
 public:
  // `loss` is kept by reference. Throws UserError when there are too many classes for a confusion matrix.
  ClassificationScores(const ClassificationLoss& loss, bool confusion);

  // The record of a batch for `take`: its samples, the numbers that are correct and in the top five, its loss
  // and weight; the true and the predicted class of each sample.
  Record measure(const Tensor& output, const datasets::Batch& batch) const;
  void take(std::span<const std::byte> record);
  void add(const Tensor& output, const datasets::Batch& batch) { take(measure(output, batch)); }
  // accuracy, top5 with more than five classes, loss, class_figures().
  Metrics metrics() const;
  // As Task::undefined_figures, for so many classes.
  static std::map<std::string, std::string> undefined_figures(Index classes);
  // Precision, recall and F1 of each class, and its samples; missing `class_names` are numbers. Undefined:
  // precision of a class that is never predicted, recall of one without samples, and F1 of one without
  // either.
  Breakdown breakdown(const std::vector<std::string>& class_names) const;
  // Absent unless requested.
  const metrics::ConfusionMatrix* confusion() const { return keeps_confusion_ ? &confusion_ : nullptr; }

 private:
  // Counts of a batch.
  struct Counts {
    std::int64_t samples = 0, first = 0, among_top = 0;
    double loss = 0.0, weight = 0.0;  // mean loss and its weight
  };
  // Samples of a class, or predicted as it.
  struct ClassCounts {
    std::int64_t samples = 0, taken = 0, right = 0;
  };
  // Counts a sample; returns its predicted class, which is the label only if it counts as correct.
  std::int64_t count(const float* scores, std::int64_t label, Counts& counts) const;

  const ClassificationLoss& loss_of_;
  std::int64_t samples_ = 0, first_ = 0, among_top_ = 0;
  double loss_ = 0.0, weight_ = 0.0;
  std::vector<ClassCounts> by_class_;
  bool keeps_confusion_;
  metrics::ConfusionMatrix confusion_;  // of no classes where nothing needs it
};

}  // namespace tandem::tasks
