// Losses of segmentation: a per-pixel term, and Dice, a region term.
#pragma once

#include <memory>

#include "core/options/registry.h"
#include "data/sample_source.h"

namespace tandem::tasks {

class SegmentationLoss {
 public:
  virtual ~SegmentationLoss() = default;

  // An f32 scalar. output [N,H,W,scores()], mask u8 [N,H,W] with kIgnored for ignored pixels.
  Tensor operator()(const Tensor& output, const Tensor& mask) const;
  // Scores per pixel that the model must return: one per class, or for two classes possibly a single one that
  // is above 0 for the second.
  Index scores() const { return scores_; }
  // Whether a part of a step is weighted by its pixels instead of its samples.
  bool by_pixels() const { return by_pixels_; }
  // The weight of its masks if weighted by pixels; absent: the pixels that are not ignored.
  virtual datasets::BatchWeight batch_weight() const { return {}; }

 protected:
  SegmentationLoss(Index scores, bool by_pixels) : scores_(scores), by_pixels_(by_pixels) {}
  virtual Tensor compute(const Tensor& output, const Tensor& mask) const = 0;

 private:
  Index scores_;
  bool by_pixels_;
};

using SegmentationLosses = options::Registry<std::unique_ptr<SegmentationLoss>(Index classes)>;

// Default: cross_entropy_dice. Construction throws UserError if the number of classes does not fit.
SegmentationLosses& segmentation_losses();

}  // namespace tandem::tasks
