// Metrics of predicted masks, from one confusion matrix of all pixels of a set.
#pragma once

#include <array>
#include <vector>

#include "metrics/confusion_matrix.h"
#include "tasks/metrics.h"
#include "tasks/record.h"
#include "tasks/segmentation/loss.h"

namespace tandem::tasks {

// The predicted class of each pixel, u8 [N,H,W] on the host, from scores [N,H,W,K]: the maximum, the first on
// ties; with K = 1, whether the score is above 0.
Tensor classes_of_scores(const Tensor& scores);

// Accumulates metrics over batches. Every pixel has the same weight in any batch; ignored ones do not count.
class PixelScores {
 public:
  // Probability thresholds for the second of two classes: i/kThresholds for i from 1.
  static constexpr int kThresholds = 20;

  // Keeps a reference to `loss`.
  PixelScores(const SegmentationLoss& loss, Index classes);

  // output [N,H,W,scores of the loss], mask u8 [N,H,W]. Returns the predicted classes, u8 [N,H,W] on the
  // host, and writes the record for `take`: loss and counts of the batch. A pixel with a NaN score counts as
  // wrong.
  Tensor measure(const Tensor& output, const Tensor& mask, RecordWriter& to) const;
  void take(RecordReader& from);
  Tensor add(const Tensor& output, const Tensor& mask);

  // miou, dice, pixel_accuracy, loss, class_figures().
  Metrics metrics() const;
  const metrics::ConfusionMatrix& confusion() const { return confusion_; }
  // IoU of the second of two classes at probability thresholds i/kThresholds, for i of 1 to kThresholds - 1;
  // empty for other numbers of classes.
  std::vector<double> iou_by_threshold() const;

 private:
  // For two classes: pixels by true class and probability of the second, in steps of 1/kThresholds.
  using Probabilities = std::array<std::array<std::int64_t, kThresholds>, 2>;
  // Sums of a batch.
  struct Loss {
    double mean = 0.0, pixels = 0.0;
  };

  Probabilities probabilities_of(const std::vector<float>& scores,
                                 const std::vector<std::uint8_t>& truth) const;

  const SegmentationLoss& loss_of_;
  metrics::ConfusionMatrix confusion_;
  Probabilities probabilities_{};
  double loss_ = 0.0, weight_ = 0.0;
};

}  // namespace tandem::tasks
