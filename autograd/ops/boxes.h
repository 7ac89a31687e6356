// Training targets of detectors: matching of anchors and objects, and hard negative mining
// (core/kernels/boxes.h). f32 on every device; no gradients.
#pragma once

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

struct MatchedBoxes {
  Tensor label;      // i32 [N,A], 0: background
  Tensor code;       // f32 [N,A,4]
  Tensor unmatched;  // i32 [N], objects without an anchor
};

// anchors f32 [A,4] as (cx, cy, w, h); boxes f32 [N,G,5] as (x1, y1, x2, y2, label) relative to the image.
// Labels start at 1; a label <= 0 is padding. Throws UserError for other shapes and dtypes, no anchors, a
// threshold outside (0,1] and non-positive variances. Throws InternalError, on the CPU, for an object without
// area, which has no code; readers and transforms drop those.
MatchedBoxes match_boxes(const Tensor& anchors, const Tensor& boxes, const BoxMatchOptions& options = {});

struct MinedAnchors {
  // f32 [N,A]: factors on the class loss and the box loss of each anchor; their sums are the loss.
  Tensor class_weight, box_weight;
};

// loss f32 [N,A]; label i32 [N,A] from match_boxes. Throws UserError for other shapes and dtypes, and for
// negative options.
MinedAnchors mine_negatives(const Tensor& loss, const Tensor& label, const MiningOptions& options = {});

}  // namespace tandem
