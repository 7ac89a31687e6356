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
  MatchedBoxes forward(Context&, Nothing&, const In&) const;
};

struct MineNegatives {
  MiningOptions options;
  static constexpr OpInfo info{
      "mine_negatives", CastRule::none, {.kind = OpKind::computes, .family = "boxes"}};
  struct In {
    Tensor loss, label;
  };
  MinedAnchors forward(Context&, Nothing&, const In&) const;
};

}  // namespace ops

using BoxOps = TypeList<ops::MatchBoxes, ops::MineNegatives>;

}  // namespace tandem
