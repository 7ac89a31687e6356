// SSDLite (Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks", section 6.2): SSD
// with each 3×3 convolution replaced by a depthwise and a 1×1 convolution. Names and initialisation are
// torchvision's: normal of deviation 0.03, biases at 0.
#pragma once

#include <memory>
#include <vector>

#include "models/anchors.h"
#include "models/detector_body.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

// Heads of two convolutions a map: depthwise 3×3, batch norm, ReLU6; then 1×1 with bias.
class LiteHeads final : public nn::Module {
 public:
  // `channels` of the maps, one for each level of the anchors.
  LiteHeads(const std::vector<Index>& channels, const AnchorGrid& anchors, Index classes);

  // Maps [N,H,W,C] → logits [N,A,classes] and codes [N,A,4], anchor by anchor within a cell.
  TensorList forward_outputs(const TensorList& maps) override;
  std::string describe() const override { return "LiteHeads"; }

 private:
  class Head;
  std::shared_ptr<Head> classes_, boxes_;
};

// MobileNetV3-Large with the reduced tail. The first map is the expansion in the last strided block, 1/16 of
// the image; the second is the network's end, 1/32; then four extra layers, each half as large: 1×1 to half
// the channels, depthwise 3×3 of stride 2, 1×1, with batch norm and ReLU6 each.
class MobileNetDetectorBody final : public DetectorBody {
 public:
  MobileNetDetectorBody();
  TensorList maps(const Tensor& images) override;
  std::vector<Index> channels() const override { return channels_; }
  std::string describe() const override { return "MobileNetDetectorBody"; }

 private:
  std::vector<std::shared_ptr<nn::Sequential>> parts_;  // each gives a map
  std::vector<Index> channels_;
};

}  // namespace tandem::models
