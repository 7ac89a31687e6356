// Multibox loss of SSD: cross entropy of the positive anchors and of hard negatives, and smooth L1 of the
// positive anchors' codes.
#pragma once

#include "autograd/ops/boxes.h"
#include "core/options/schema.h"
#include "models/anchors.h"

namespace tandem::models {

// Weight of a part of a step: of a micro-batch, a shard, a rank.
enum class AnchorCounts : std::uint8_t { anchors, samples };

struct MultiboxOptions {
  BoxMatching matching = BoxMatching::argmax;
  double threshold = 0.5;  // IoU from which an anchor is positive
  double negatives_per_positive = 3.0;
  Index min_negatives = 0;
  LossShare normalize = LossShare::batch;
  AnchorCounts batch_weight = AnchorCounts::anchors;
  // Whether a part of a batch is weighted by its number of positive anchors.
  bool by_anchors() const { return normalize == LossShare::batch && batch_weight == AnchorCounts::anchors; }
  static const options::Schema& schema();

  BoxMatchOptions match() const { return {.matching = matching, .threshold = static_cast<float>(threshold)}; }
  MiningOptions mining() const { return {negatives_per_positive, min_negatives, normalize}; }
};

struct MultiboxLoss {
  Tensor total;           // f32 scalar, sum of the parts
  Tensor classes, boxes;  // f32 scalars
  Tensor unmatched;       // i32 [N], objects without an anchor
};

// anchors f32 [A,4]; box f32 [N,G,5] (match_boxes). Everything is f32 under any precision; 16-bit outputs are
// widened. Matching and mining have no gradients.
MultiboxLoss multibox_loss(const AnchorOutput& output, const Tensor& anchors, const Tensor& box,
                           const MultiboxOptions& options);
// The same for matched anchors.
MultiboxLoss multibox_loss(const AnchorOutput& output, const MatchedBoxes& matched,
                           const MultiboxOptions& options);

}  // namespace tandem::models
