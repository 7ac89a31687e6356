// Boxes: what the kernels of Backend's family `boxes` take. Which anchor learns which object, and which
// anchors without one take part in the loss.
//
// Boxes of objects are (x1, y1, x2, y2), anchors (cx, cy, w, h), both in shares of the image's sides. All of
// it is f32, with the same bits on every device and at every level: nothing is fused, sums have one order,
// and of equals the lowest index counts.
#pragma once

#include <array>

#include "core/tensor.h"

namespace tandem {

enum class BoxMatching : std::uint8_t {
  // Each anchor takes the object with which it overlaps most, if by the threshold or more; each object then
  // takes
  // the anchor that overlaps it most, whatever that has; of several that want the same one the last has it
  // (torchvision's SSD).
  argmax,
  // First the pairs of the greatest overlap, one after the other, object and anchor once each, as long as
  // they
  // overlap by more than 1e-6; then the anchors that are left as above (Liu et al., "SSD: single shot
  // multibox
  // detector", 2016, as its authors' Caffe has it).
  greedy,
};

struct BoxMatchOptions {
  BoxMatching matching = BoxMatching::argmax;
  float threshold = 0.5f;  // of intersection over union
  // What offsets of centres, and logarithms of extents, are divided by.
  std::array<float, 2> variances{0.1f, 0.2f};
};

struct BoxMatch {
  Tensor anchors;  // f32 [A,4], extents above 0
  Tensor boxes;    // f32 [N,G,5], of an area above 0, each with its label from 1 on; up to 0: none is there
  BoxMatchOptions options;
  // Written.
  Tensor label;  // i32 [N,A], 0: background
  Tensor
      code;  // f32 [N,A,4]: ((g-d)_cx/d_w, (g-d)_cy/d_h)/v_0, (ln(g_w/d_w), ln(g_h/d_h))/v_1; of background 0
  Tensor unmatched;  // i32 [N], objects that no anchor has
};

// Among what the sum of weighted losses is divided.
enum class LossShare : std::uint8_t {
  batch,  // the anchors of the batch that have an object, at least one
  image,  // those of the image, at least one, times the images
};

struct MiningOptions {
  double negatives_per_positive = 3.0;
  Index min_negatives = 0;  // of an image
  LossShare share = LossShare::batch;
};

// Of the anchors of an image without an object those with the greatest loss, as many as options say (rounded
// down), and all that have one: SSD's hard negative mining. Of equal losses the lower anchor comes first, NaN
// before everything.
struct NegativeMining {
  Tensor loss;   // f32 [N,A]
  Tensor label;  // i32 [N,A]
  MiningOptions options;
  // Written: what an anchor's losses are multiplied by, of its class and of its box.
  Tensor class_weight, box_weight;  // f32 [N,A]
};

}  // namespace tandem
