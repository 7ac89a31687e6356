// Fit of boxes to the anchors of a model, an early sign of wrong anchors.
#pragma once

#include <string>

#include "core/op_options.h"
#include "core/tensor.h"
#include "data/boxes/box_corpus.h"

namespace tandem::tasks {

struct BoxFit {
  Index boxes = 0;                                // examined boxes
  double tenth = 0, middle = 0, nine_tenths = 0;  // quantiles of √area in pixels, after resizing of images
  double uncovered = 0;                           // share without an anchor of the threshold's IoU
  Index unmatched = 0;                            // without an anchor (match_boxes)

  // "boxes of 18 to 52 pixels (10 % and 90 % quantiles), median 31; no anchor overlaps 8.2 % of them by 0.5;
  // no anchor learns 3 of 400"
  std::string text(double threshold) const;
};

// For the objects of up to `most_images` images, evenly spaced in the corpus. anchors f32 [A,4]
// (match_boxes); `side`: size that images are resized to, ignoring their aspect ratio.
BoxFit fit_of(const datasets::BoxCorpus& corpus, const Tensor& anchors, Index side,
              const BoxMatchOptions& options, Index most_images = 2000);

}  // namespace tandem::tasks
