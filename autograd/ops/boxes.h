// Anchors and objects: which anchor learns which object, and which take part in the loss (core/boxes.h). f32
// on every device; no gradients. What detectors compare their outputs with is made here.
#pragma once

#include "autograd/op.h"
#include "core/boxes.h"

namespace tandem {

struct MatchedBoxes {
  Tensor label;      // i32 [N,A], 0: background
  Tensor code;       // f32 [N,A,4]
  Tensor unmatched;  // i32 [N], objects that no anchor has
};

// anchors f32 [A,4] as (cx, cy, w, h), boxes f32 [N,G,5] as (x1, y1, x2, y2, label), in shares of the image;
// labels from 1 on, up to 0 where there is no object. Throws UserError for other shapes and dtypes, for no
// anchor, for a threshold outside (0,1] and variances that are not above 0; InternalError, on the CPU, for an
// object without an area, which has no code: readers and transforms leave those out.
MatchedBoxes match_boxes(const Tensor& anchors, const Tensor& boxes, const BoxMatchOptions& options = {});

struct MinedAnchors {
  // f32 [N,A]: what the losses of an anchor's class, and of its box, are multiplied by; their sums are the
  // loss.
  Tensor class_weight, box_weight;
};

// loss f32 [N,A], label i32 [N,A] as match_boxes gives it. Throws UserError for other shapes and dtypes, and
// for options below 0.
MinedAnchors mine_negatives(const Tensor& loss, const Tensor& label, const MiningOptions& options = {});

}  // namespace tandem
