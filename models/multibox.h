// The loss of SSD: cross entropy of the anchors that have an object and of the hardest of the others, and
// smooth L1 between the codes of the former.
#pragma once

#include "autograd/ops/boxes.h"
#include "core/options/schema.h"
#include "models/anchors.h"

namespace tandem::models {

// The share of each part of a step: of a micro-batch, a shard, a rank.
enum class AnchorCounts : std::uint8_t { anchors, samples };

struct MultiboxOptions {
  BoxMatching matching = BoxMatching::argmax;
  double threshold = 0.5;  // overlap from which an anchor has an object
  double negatives_per_positive = 3.0;
  Index min_negatives = 0;
  LossShare normalize = LossShare::batch;
  AnchorCounts batch_weight = AnchorCounts::anchors;
  // Whether a part of a batch counts as many times as it has anchors with an object.
  bool by_anchors() const { return normalize == LossShare::batch && batch_weight == AnchorCounts::anchors; }
  static const options::Schema& schema();

  BoxMatchOptions match() const { return {.matching = matching, .threshold = static_cast<float>(threshold)}; }
  MiningOptions mining() const { return {negatives_per_positive, min_negatives, normalize}; }
};

struct MultiboxLoss {
  Tensor total;           // f32 scalar, of classes and of boxes
  Tensor classes, boxes;  // its parts, f32 scalars
  Tensor unmatched;       // i32 [N], objects that no anchor has
};

// anchors f32 [A,4]; box f32 [N,G,5] (match_boxes). All of it is f32, whatever the outputs are and whatever
// precision is active: outputs of 16 bits are widened. Matching and mining pass no gradients on.
MultiboxLoss multibox_loss(const AnchorOutput& output, const Tensor& anchors, const Tensor& box,
                           const MultiboxOptions& options);
// Of anchors that are matched.
MultiboxLoss multibox_loss(const AnchorOutput& output, const MatchedBoxes& matched,
                           const MultiboxOptions& options);

}  // namespace tandem::models
