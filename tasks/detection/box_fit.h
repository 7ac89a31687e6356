// The fit of boxes to the anchors of a model: the early sign of wrong ones.
#pragma once

#include <string>

#include "core/boxes.h"
#include "core/tensor.h"
#include "data/boxes/box_corpus.h"

namespace tandem::tasks {

struct BoxFit {
  Index boxes = 0;                                // that were looked at
  double tenth = 0, middle = 0, nine_tenths = 0;  // quantiles of √area in pixels, after images are resized
  double uncovered = 0;                           // share that no anchor overlaps by the threshold
  Index unmatched = 0;                            // that no anchor learns (match_boxes)

  // "boxes of 18 to 52 pixels (from a tenth to nine tenths), 31 in the middle; no anchor overlaps 8.2 % of
  // them by 0.5; no anchor learns 3 of 400"
  std::string text(double threshold) const;
};

// Of the objects of up to `most_images` images, evenly drawn from the corpus. anchors f32 [A,4]
// (match_boxes); `side`: that images are brought to, whatever their proportions.
BoxFit fit_of(const datasets::BoxCorpus& corpus, const Tensor& anchors, Index side,
              const BoxMatchOptions& options, Index most_images = 2000);

}  // namespace tandem::tasks
