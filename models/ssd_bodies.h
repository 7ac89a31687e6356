// Backbones of SSD: VGG-16 as in torchvision, residual networks as in NVIDIA's DeepLearningExamples, and a
// small one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/detector_body.h"
#include "models/resnet.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

// Maps of 1/8, 1/16 and 1/32 of the image: 3×3 convolutions with batch norm and ReLU, `width` channels at
// 1/2, doubled up to 8·width; after the first map a 1×1 convolution to half the channels precedes each
// halving one.
class SmallDetectorBody final : public DetectorBody {
 public:
  explicit SmallDetectorBody(Index width = 16, Index in_channels = 3);
  TensorList maps(const Tensor& images) override;
  std::vector<Index> channels() const override;
  std::string describe() const override { return "SmallDetectorBody"; }

 private:
  Index width_;
  std::shared_ptr<nn::Sequential> features_;
  std::vector<std::shared_ptr<nn::Sequential>> extra_;
};

// Extra layers after the backbone, each of which gives a smaller map: a 1×1 convolution and a 3×3 one.
struct ExtraLayer {
  Index inner, out;       // channels
  Index stride, padding;  // of the second convolution
  Index kernel = 3;
};

// VGG-16 (Simonyan and Zisserman 2015) up to conv4_3, whose map is scaled to a learned norm, initially 20;
// then conv5, fc6 and fc7 as convolutions, fc6 dilated by 6; then `extra`. Names of parameters are
// torchvision's.
class VggDetectorBody final : public DetectorBody {
 public:
  explicit VggDetectorBody(const std::vector<ExtraLayer>& extra);
  TensorList maps(const Tensor& images) override;
  std::vector<Index> channels() const override { return channels_; }
  std::string describe() const override { return "VggDetectorBody"; }
  // torchvision's vgg16 up to conv5; its fully connected layers differ.
  ForeignNames classifier_names(const safetensors::File& file) const override;

 private:
  std::shared_ptr<nn::Sequential> before_pool3_, features_;
  Parameter scale_weight_;
  std::vector<std::shared_ptr<nn::Sequential>> extra_;
  std::vector<Index> channels_;
};

// The extra layers for 300² and 512² images.
std::vector<ExtraLayer> vgg_extras_300();
std::vector<ExtraLayer> vgg_extras_512();

// A residual network up to its third stage, which keeps its size: a map of 1/8 of the image; then five extra
// layers. `norm`: extra layers with batch norm and without bias, as NVIDIA's; else with bias, as MLPerf's of
// depth 34.
class ResNetDetectorBody final : public DetectorBody {
 public:
  // Depth 18, 34 or 50.
  explicit ResNetDetectorBody(int depth, bool norm = true);
  TensorList maps(const Tensor& images) override;
  std::vector<Index> channels() const override { return channels_; }
  std::string describe() const override;
  // torchvision's resnet18, 34 and 50.
  ForeignNames classifier_names(const safetensors::File& file) const override;

 private:
  class Trunk;
  int depth_;
  std::shared_ptr<Trunk> trunk_;
  std::vector<std::shared_ptr<nn::Sequential>> additional_blocks_;
  std::vector<Index> channels_;
};

}  // namespace tandem::models
