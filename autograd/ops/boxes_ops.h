// The op structs behind boxes.h.
#pragma once

#include "autograd/ops/boxes.h"
#include "autograd/ops/parts.h"

namespace tandem {

namespace ops {

struct MatchBoxes {
  BoxMatchOptions options;
  static constexpr OpInfo info{"match_boxes", CastRule::none, {.kind = OpKind::computes, .family = "boxes"}};
  struct In {
    Tensor anchors, boxes;
  };
  using Saved = Nothing;
  struct Out {
    Tensor label, code, unmatched;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out&, const Needs&) const;
};

struct MineNegatives {
  MiningOptions options;
  static constexpr OpInfo info{
      "mine_negatives", CastRule::none, {.kind = OpKind::computes, .family = "boxes"}};
  struct In {
    Tensor loss, label;
  };
  using Saved = Nothing;
  struct Out {
    Tensor class_weight, box_weight;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out&, const Needs&) const;
};

}  // namespace ops

using BoxOps = TypeList<ops::MatchBoxes, ops::MineNegatives>;

}  // namespace tandem
