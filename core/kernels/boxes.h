// Box kernels: matching of anchors to objects and hard negative mining.
//
// Boxes of objects are (x1, y1, x2, y2), anchors (cx, cy, w, h), both in shares of the image's sides, f32.
// The bits are the same on every device and at every level: nothing is fused, sums have one order, and the
// lowest index of equals wins.
#pragma once

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

struct BoxMatch {
  Tensor anchors;  // f32 [A,4], extents above 0
  Tensor boxes;    // f32 [N,G,5], of an area above 0, each with its label from 1 on; 0 or below: absent
  BoxMatchOptions options;
  // Outputs.
  Tensor label;  // i32 [N,A], 0: background
  // f32 [N,A,4]: ((g-d)_cx/d_w, (g-d)_cy/d_h)/v_0, (ln(g_w/d_w), ln(g_h/d_h))/v_1; 0 for background
  Tensor code;
  Tensor unmatched;  // i32 [N], objects without an anchor
};

// SSD's hard negative mining: chooses all anchors with an object, and of the others in an image those with
// the greatest loss, in the number of the options (rounded down). Equal losses: the lower anchor first; NaN
// counts as greatest.
struct NegativeMining {
  Tensor loss;   // f32 [N,A]
  Tensor label;  // i32 [N,A]
  MiningOptions options;
  // Outputs: the factors of each anchor's losses, of its class and of its box.
  Tensor class_weight, box_weight;  // f32 [N,A]
};

struct BoxKernels {
  virtual ~BoxKernels() = default;

  virtual void match_boxes(const BoxMatch& args) = 0;
  virtual void mine_negatives(const NegativeMining& args) = 0;
};

}  // namespace tandem
