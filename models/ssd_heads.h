// Heads of SSD: a 3×3 convolution on each map for scores and one for codes, run as one convolution.
#pragma once

#include <memory>
#include <vector>

#include "models/anchors.h"
#include "nn/module.h"

namespace tandem::models {

// Weights start Xavier-uniform, biases at 0.
class SsdHeads final : public nn::Module {
 public:
  // `channels` of the maps, one for each level of the anchors.
  SsdHeads(const std::vector<Index>& channels, const AnchorGrid& anchors, Index classes);

  // Maps [N,H,W,C] → logits [N,A,classes] and codes [N,A,4], anchor by anchor within a cell.
  TensorList forward_outputs(const TensorList& maps) override;
  std::string describe() const override { return "SsdHeads"; }

 private:
  class Head;
  std::shared_ptr<Head> classes_, boxes_;
};

}  // namespace tandem::models
