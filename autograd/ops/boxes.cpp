#include "autograd/ops/boxes.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/parts.h"
#include "core/error.h"
#include "core/kernels/boxes.h"

namespace tandem {

namespace ops {

namespace {

struct MatchBoxes {
  BoxMatchOptions options;
  static constexpr OpInfo info{"match_boxes", CastRule::none, {.kind = OpKind::computes, .family = "boxes"}};
  struct In {
    Tensor anchors, boxes;
  };
  MatchedBoxes forward(Context& context, Nothing&, const In& in) const {
    const Index images = in.boxes.size(0), anchors = in.anchors.size(0);
    const MatchedBoxes out{context.empty({images, anchors}, DType::i32),
                           context.empty({images, anchors, 4}, DType::f32),
                           context.empty({images}, DType::i32)};
    context.backend.boxes().match_boxes({.anchors = in.anchors,
                                         .boxes = in.boxes,
                                         .options = options,
                                         .label = out.label,
                                         .code = out.code,
                                         .unmatched = out.unmatched});
    return out;
  }
};

struct MineNegatives {
  MiningOptions options;
  static constexpr OpInfo info{
      "mine_negatives", CastRule::none, {.kind = OpKind::computes, .family = "boxes"}};
  struct In {
    Tensor loss, label;
  };
  MinedAnchors forward(Context& context, Nothing&, const In& in) const {
    const MinedAnchors out{context.empty(in.loss.shape(), DType::f32),
                           context.empty(in.loss.shape(), DType::f32)};
    context.backend.boxes().mine_negatives({.loss = in.loss,
                                            .label = in.label,
                                            .options = options,
                                            .class_weight = out.class_weight,
                                            .box_weight = out.box_weight});
    return out;
  }
};

}  // namespace

}  // namespace ops

namespace {

constexpr const char* kMatchBoxes = "match_boxes";

// A non-positive extent would make its logarithm, and the loss, infinite or NaN. On an asynchronous device
// only a kernel could check the values.
void ensure_extents(const Tensor& boxes) {
  if (boxes.device().type != DeviceType::cpu) return;
  const Index objects = boxes.size(1);
  for (Index i = 0; i < boxes.size(0) * objects; ++i) {
    const float* const box = boxes.data<float>() + 5 * i;
    ensure(!(box[4] > 0.0f) || (box[2] > box[0] && box[3] > box[1]), kMatchBoxes,
           "object {} of image {} is [{}, {}, {}, {}], which has no area", i % objects, i / objects, box[0],
           box[1], box[2], box[3]);
  }
}

}  // namespace

MatchedBoxes match_boxes(const Tensor& anchors, const Tensor& boxes, const BoxMatchOptions& options) {
  require(anchors.rank() == 2 && anchors.size(1) == 4 && anchors.size(0) > 0 && anchors.dtype() == DType::f32,
          kMatchBoxes, "anchors must be f32 [A,4] with A >= 1, got {}", to_string(anchors));
  require(boxes.rank() == 3 && boxes.size(2) == 5 && boxes.dtype() == DType::f32, kMatchBoxes,
          "boxes must be f32 [N,G,5] including labels, got {}", to_string(boxes));
  require(options.threshold > 0.0f && options.threshold <= 1.0f, kMatchBoxes,
          "the threshold must lie in (0,1], is {}", options.threshold);
  for (const float variance : options.variances)
    require(variance > 0.0f, kMatchBoxes, "variances must be above 0, got {}", variance);
  ensure_extents(boxes);
  return apply(ops::MatchBoxes{options}, {anchors, boxes});
}

MinedAnchors mine_negatives(const Tensor& loss, const Tensor& label, const MiningOptions& options) {
  constexpr const char* kName = "mine_negatives";
  require(loss.rank() == 2 && loss.dtype() == DType::f32, kName, "losses must be f32 [N,A], got {}",
          to_string(loss));
  require(label.shape() == loss.shape() && label.dtype() == DType::i32, kName,
          "labels must be i32 of the losses' shape, got {} for {}", to_string(label), to_string(loss));
  require(options.negatives_per_positive >= 0.0 && options.min_negatives >= 0, kName,
          "numbers of negatives must not be negative, got {} for each positive and a minimum of {}",
          options.negatives_per_positive, options.min_negatives);
  return apply(ops::MineNegatives{options}, {loss, label});
}

OpInfos boxes_ops() { return infos_of<ops::MatchBoxes, ops::MineNegatives>(); }

}  // namespace tandem
