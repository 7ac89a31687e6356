#include "bench/parts.h"
#include "bench/synthetic.h"
#include "models/anchors.h"
#include "models/box_finder.h"
#include "models/multibox.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

constexpr Index kImages = 8, kObjects = 7, kClasses = 81;

Tensor anchors_of_ssd300() { return models::anchor_grid("coco300").boxes(models::AnchorClip::wh); }

// First coordinates of synthetic_point, scaled to [-scale, scale).
Tensor synthetic_tensor(const Shape& shape, double scale) {
  Tensor tensor = Tensor::empty(shape);
  float* const values = tensor.data<float>();
  for (Index i = 0; i < shape.numel(); ++i)
    values[i] = static_cast<float>(scale * (2.0 * synthetic_point(i)[0] - 1.0));
  return tensor;
}

// Scores with candidates at 25 neighbouring anchors for each of 40 classes; the rest is background.
Tensor synthetic_candidates(Index anchors) {
  constexpr Index kGroups = 40, kNeighbours = 25;
  Tensor scores = Tensor::zeros({1, anchors, kClasses});
  float* const values = scores.data<float>();
  for (Index a = 0; a < anchors; ++a) values[a * kClasses] = 12.0F;
  for (Index i = 0; i < kGroups * kNeighbours; ++i) {
    const Index group = i / kNeighbours, anchor = 200 * group + i % kNeighbours;
    values[anchor * kClasses + 1 + 2 * group] = static_cast<float>(9.0 + 6.0 * synthetic_point(i)[1]);
  }
  return scores;
}

}  // namespace

TrainingPtr ssd_matching() {
  const Tensor anchors = anchors_of_ssd300(), boxes = synthetic_objects(kImages, kObjects, kClasses);
  return std::make_unique<Part>(kImages, [=] {
    const MatchedBoxes matched = match_boxes(anchors, boxes);
    const std::int32_t* const label = matched.label.data<std::int32_t>();
    return static_cast<double>(matched.label.numel() - std::count(label, label + matched.label.numel(), 0));
  });
}

TrainingPtr ssd_loss() {
  const Tensor anchors = anchors_of_ssd300();
  const MatchedBoxes matched = match_boxes(anchors, synthetic_objects(kImages, kObjects, kClasses));
  const Tensor scores = leaf(synthetic_tensor({kImages, anchors.size(0), kClasses}, 2.0));
  const Tensor codes = leaf(synthetic_tensor({kImages, anchors.size(0), 4}, 2.0));
  return std::make_unique<Part>(kImages, [=] {
    clear_gradient_of(scores);
    clear_gradient_of(codes);
    const Tensor loss = models::multibox_loss({scores, codes}, matched, {}).total;
    backward(loss);
    return loss.item();
  });
}

TrainingPtr ssd_nms() {
  const Tensor anchors = anchors_of_ssd300();
  const models::AnchorOutput output{synthetic_candidates(anchors.size(0)),
                                    synthetic_tensor({1, anchors.size(0), 4}, 0.5)};
  return std::make_unique<Part>(
      1, [=] { return static_cast<double>(models::find_boxes(output, anchors, {}).front().size()); });
}

}  // namespace tandem::bench
