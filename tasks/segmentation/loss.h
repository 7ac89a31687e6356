// The losses of what gives scores for every pixel: a term for each pixel by itself, and Dice, which looks at
// regions.
#pragma once

#include <memory>

#include "core/options/registry.h"
#include "data/sample_source.h"

namespace tandem::tasks {

class SegmentationLoss {
 public:
  virtual ~SegmentationLoss() = default;

  // An f32 scalar. output [N,H,W,scores()], mask u8 [N,H,W] with kIgnored where a pixel counts for nothing.
  Tensor operator()(const Tensor& output, const Tensor& mask) const;
  // The scores of a pixel that the model must give: one a class, or where there are two classes, one that is
  // above 0 for the second.
  Index scores() const { return scores_; }
  // Whether a part of a step counts by its pixels, instead of its samples.
  bool by_pixels() const { return by_pixels_; }
  // What its masks count where parts count by pixels; absent: the pixels that count.
  virtual datasets::BatchWeight batch_weight() const { return {}; }

 protected:
  SegmentationLoss(Index scores, bool by_pixels) : scores_(scores), by_pixels_(by_pixels) {}
  virtual Tensor compute(const Tensor& output, const Tensor& mask) const = 0;

 private:
  Index scores_;
  bool by_pixels_;
};

using SegmentationLosses = options::Registry<std::unique_ptr<SegmentationLoss>(Index classes)>;

// Without a name it is cross_entropy_dice. Making one throws UserError when it is not for so many classes.
const SegmentationLosses& segmentation_losses();

}  // namespace tandem::tasks
