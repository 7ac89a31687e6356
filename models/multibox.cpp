#include "models/multibox.h"

#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"

template <>
struct tandem::options::EnumNames<tandem::BoxMatching> {
  static constexpr std::array values{"argmax", "greedy"};
};
template <>
struct tandem::options::EnumNames<tandem::LossShare> {
  static constexpr std::array values{"batch", "image"};
};
template <>
struct tandem::options::EnumNames<tandem::models::AnchorCounts> {
  static constexpr std::array values{"anchors", "samples"};
};

namespace tandem::models {

const options::Schema& MultiboxOptions::schema() {
  using Options = MultiboxOptions;
  static const options::Schema schema =
      options::Describe<Options>()
          .key("matching", &Options::matching,
               "best-anchor assignment: argmax: the anchor with the highest IoU (ties: the last object "
               "wins); greedy: bipartite matching, highest IoU first")
          .key("threshold", &Options::threshold, "IoU from which an anchor is matched with an object",
               {.min = 0.0, .max = 1.0, .open_min = true})
          .key("negatives_per_positive", &Options::negatives_per_positive,
               "hard negatives per positive anchor", {.min = 0.0})
          .key("min_negatives", &Options::min_negatives,
               "minimum number of negatives of an image; at 0, images without objects have no loss",
               {.min = 0})
          .key("normalize", &Options::normalize,
               "divisor of the loss: batch: positive anchors of the batch; image: positive anchors of each "
               "image, then the number of images. Published learning rates suit one of them")
          .key("batch_weight", &Options::batch_weight,
               "weight of each micro-batch, shard and rank in a step of several, with normalize=batch: "
               "anchors, those that have an object, so that the step is that of one batch; samples, its "
               "images, as torchvision's SSD under DistributedDataParallel");
  return schema;
}

MultiboxLoss multibox_loss(const AnchorOutput& output, const Tensor& anchors, const Tensor& box,
                           const MultiboxOptions& options) {
  return multibox_loss(output, match_boxes(anchors, box, options.match()), options);
}

MultiboxLoss multibox_loss(const AnchorOutput& output, const MatchedBoxes& matched,
                           const MultiboxOptions& options) {
  const PrecisionScope as_it_is(nullptr);  // no policy may round widened values
  const Tensor each = cross_entropy(output.scores, matched.label, {.reduce = Reduce::none});
  const MinedAnchors mined = mine_negatives(each.detach(), matched.label, options.mining());
  const Tensor classes = sum(each * mined.class_weight);
  const Tensor distance = smooth_l1_loss(output.codes, matched.code, 1.0, Reduce::none);
  const Shape& shape = mined.box_weight.shape();
  const Tensor boxes = sum(distance * reshape(mined.box_weight, {shape[0], shape[1], 1}));
  return {classes + boxes, classes, boxes, matched.unmatched};
}

}  // namespace tandem::models
