// Figures of predicted masks: one confusion matrix of all pixels of a set, and what follows from it.
#pragma once

#include <array>
#include <vector>

#include "metrics/confusion_matrix.h"
#include "tasks/metrics.h"
#include "tasks/record.h"
#include "tasks/segmentation/loss.h"

namespace tandem::tasks {

// The class of each pixel, of scores [N,H,W,K] u8 [N,H,W] on the host: the greatest, the first of equals; of
// K = 1, whether it is above 0.
Tensor classes_of_scores(const Tensor& scores);

// Gathers figures over batches. Every pixel weighs the same, whatever its batch; ignored ones count nowhere.
class PixelScores {
 public:
  // Shares of the second of two classes at which it is taken for it: i/kThresholds for i from 1 on.
  static constexpr int kThresholds = 20;

  // `loss` is kept by reference.
  PixelScores(const SegmentationLoss& loss, Index classes);

  // output [N,H,W,scores of the loss], mask u8 [N,H,W]. Gives the predicted classes, u8 [N,H,W] on the host,
  // and writes what `take` needs: loss and counts of the batch. A pixel with a score that is no number counts
  // as another class than the true one.
  Tensor measure(const Tensor& output, const Tensor& mask, RecordWriter& to) const;
  void take(RecordReader& from);
  Tensor add(const Tensor& output, const Tensor& mask);

  // miou, dice, pixel_accuracy, loss.
  Metrics metrics() const;
  const metrics::ConfusionMatrix& confusion() const { return confusion_; }
  // Intersection over union of the second of two classes, were it taken where its probability is at least
  // i/kThresholds, for i of 1 to kThresholds - 1; empty of other than two classes.
  std::vector<double> iou_by_threshold() const;

 private:
  // Of two classes: pixels by true class and by probability of the second, in steps of 1/kThresholds.
  using Probabilities = std::array<std::array<std::int64_t, kThresholds>, 2>;
  // Of a batch.
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
