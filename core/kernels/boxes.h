// Box kernels: matching of anchors to objects and hard negative mining.
//
// Objects are (x1, y1, x2, y2), anchors (cx, cy, w, h), both f32 and relative to the image's sides. Results
// have the same bits on every device and CPU level: no multiply-add is fused, sums have one order, and the
// lowest index wins a tie.
#pragma once

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

struct BoxMatch {
  Tensor anchors;  // f32 [A,4], extents above 0
  Tensor boxes;    // f32 [N,G,5]: corners of positive area, and a label from 1; 0 or less: padding
  BoxMatchOptions options;
  // Outputs.
  Tensor label;  // i32 [N,A], 0: background
  // f32 [N,A,4]: ((g-d)_cx/d_w, (g-d)_cy/d_h)/v_0, (ln(g_w/d_w), ln(g_h/d_h))/v_1; 0 for background
  Tensor code;
  Tensor unmatched;  // i32 [N], objects without an anchor
};

// SSD's hard negative mining: selects all anchors with an object and, per image, the other anchors with the
// largest losses; the options give their number (rounded down). Ties: the lower anchor first. NaN counts as
// largest.
struct NegativeMining {
  Tensor loss;   // f32 [N,A]
  Tensor label;  // i32 [N,A]
  MiningOptions options;
  // Outputs: factors on each anchor's class loss and box loss.
  Tensor class_weight, box_weight;  // f32 [N,A]
};

struct BoxKernels {
  virtual ~BoxKernels() = default;

  virtual void match_boxes(const BoxMatch& args) = 0;
  virtual void mine_negatives(const NegativeMining& args) = 0;
};

}  // namespace tandem
