// Figures of a classifier's scores: accuracy, top-5, the mean loss, confusions.
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

// Gathers figures over batches; every sample weighs the same, whatever its batch.
class ClassificationScores {
 public:
  // `loss` is kept by reference. Throws UserError when there are too many classes for a confusion matrix.
  ClassificationScores(const ClassificationLoss& loss, bool confusion);

  // What `take` needs of a batch: its samples, how many are right and how many are among the first five, its
  // loss and its weight; the class of each and the one that it is taken for.
  Record measure(const Tensor& output, const datasets::Batch& batch) const;
  void take(std::span<const std::byte> record);
  void add(const Tensor& output, const datasets::Batch& batch) { take(measure(output, batch)); }
  // accuracy, top5 with more than five classes, loss.
  Metrics metrics() const;
  // As Task::undefined_figures, of so many classes.
  static std::map<std::string, std::string> undefined_figures(Index classes);
  // precision, recall and F1 of each class, and its samples; `class_names` where there are none are numbers.
  // Precision of a class that nothing is taken for, recall of one without samples, and F1 of one without
  // either are none.
  Breakdown breakdown(const std::vector<std::string>& class_names) const;
  // Absent unless asked for.
  const metrics::ConfusionMatrix* confusion() const { return confusion_.classes > 0 ? &confusion_ : nullptr; }

 private:
  // Of a batch.
  struct Counts {
    std::int64_t samples = 0, first = 0, among_top = 0;
    double loss = 0.0, weight = 0.0;  // the mean, and what it counts
  };
  // Of the samples of a class, or those that are taken for it.
  struct ClassCounts {
    std::int64_t samples = 0, taken = 0, right = 0;
  };
  // Counts a sample; gives the class that it is taken for, the label where it counts as right and no other
  // time.
  std::int64_t count(const float* scores, std::int64_t label, Counts& counts) const;

  const ClassificationLoss& loss_of_;
  std::int64_t samples_ = 0, first_ = 0, among_top_ = 0;
  double loss_ = 0.0, weight_ = 0.0;
  std::vector<ClassCounts> by_class_;
  metrics::ConfusionMatrix confusion_;
};

}  // namespace tandem::tasks
