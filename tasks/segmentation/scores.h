// Figures of predicted masks: one confusion matrix of all pixels of a set, and what follows from it.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tasks/confusion_matrix.h"
#include "tasks/metrics.h"
#include "tasks/record.h"
#include "tasks/segmentation/loss.h"

namespace tandem::tasks {

// Of a class, from its true and false positives and its false negatives; absent where there are none of the
// three: the class is neither there nor predicted.
struct Overlap {
  std::optional<double> iou;   // TP/(TP + FP + FN), the Jaccard index
  std::optional<double> dice;  // 2·TP/(2·TP + FP + FN)
};
std::vector<Overlap> overlaps_of(const ConfusionMatrix& confusion);
// The mean over the classes that are present, 0 where none is.
double mean_iou(const std::vector<Overlap>& overlaps);
double mean_dice(const std::vector<Overlap>& overlaps);

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
  const ConfusionMatrix& confusion() const { return confusion_; }
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
  ConfusionMatrix confusion_;
  Probabilities probabilities_{};
  double loss_ = 0.0, weight_ = 0.0;
};

}  // namespace tandem::tasks
