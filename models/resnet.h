// Residual networks (He et al. 2015, arXiv:1512.03385).
//
// ImageNet family: 18, 34, 50, 101, 152, with bottlenecks that stride in their 3×3 convolution (v1.5). CIFAR
// family: 6n+2 (20, 32, 44, 56, 110). Names of parameters are torchvision's. Convolutions start
// Kaiming-normal (fan out), the classifier as PyTorch's Linear. Input [N,H,W,C], output logits
// [N,num_classes].
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

enum class ResNetStem : std::uint8_t {
  imagenet,  // 7×7 convolution of stride 2, then 3×3 max pooling of stride 2
  cifar,     // 3×3 convolution of stride 1
};

// Shortcut when the shape changes: option B and option A of the paper.
enum class ResNetShortcut : std::uint8_t {
  projection,  // 1×1 convolution and batch norm
  padding,     // every second row and column, zero channels on both sides; no parameters
};

struct ResNetOptions {
  Index in_channels = 3;
  Index num_classes = 0;            // 0: 1000 for the ImageNet family, 10 for the CIFAR family
  Index width = 0;                  // channels of the first stage, doubled at each; 0: 64 or 16
  bool zero_init_residual = false;  // a block's last batch norm starts at 0: the block starts as the identity
  ResNetShortcut shortcut = ResNetShortcut::projection;
  std::optional<ResNetStem> stem = {};  // default: the family's own
};

// A network by its stages.
struct ResNetLayout {
  std::vector<int> blocks;  // per stage; every stage but the first halves the image and doubles the channels
  bool bottleneck = false;
  ResNetStem stem = ResNetStem::imagenet;
  Index width = 64;
  Index num_classes = 1000;
};

struct BlockOptions {
  Index stride = 1;
  bool zero_init_residual = false;
  ResNetShortcut shortcut = ResNetShortcut::projection;
};

// Shortcut of a block: x, or x matched to the shape of the residual branch.
class Shortcut {
 public:
  Shortcut() = default;
  // `projection` may be nullptr: the identity, zero-padded if shapes differ.
  Shortcut(std::shared_ptr<nn::Sequential> projection, Index in_channels, Index out_channels, Index stride);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<nn::Sequential> projection_;
  Index in_channels_ = 0, out_channels_ = 0, stride_ = 1;
};

// Two 3×3 convolutions with `channels` outputs each.
class BasicBlock final : public nn::Module {
 public:
  static constexpr Index kExpansion = 1;
  BasicBlock(Index in_channels, Index channels, const BlockOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  std::shared_ptr<nn::Conv2d> conv1_, conv2_;
  std::shared_ptr<nn::BatchNorm> bn1_, bn2_;
  Shortcut shortcut_;
};

// 1×1, 3×3 (with the stride), 1×1 convolutions; 4·channels out.
class Bottleneck final : public nn::Module {
 public:
  static constexpr Index kExpansion = 4;
  Bottleneck(Index in_channels, Index channels, const BlockOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  std::shared_ptr<nn::Conv2d> conv1_, conv2_, conv3_;
  std::shared_ptr<nn::BatchNorm> bn1_, bn2_, bn3_;
  Shortcut shortcut_;
};

// Stem and stages, without the head.
class ResNetBody : public nn::Module {
 public:
  std::string describe() const override;

 protected:
  // Options that are set override the layout. `strides`: of the stages' first blocks; empty: 1, 2, 2, …
  ResNetBody(const ResNetLayout& layout, const ResNetOptions& options,
             const std::vector<Index>& strides = {});
  Tensor features(const Tensor& x);
  Index in_channels() const { return in_channels_; }
  Index out_channels() const { return channels_; }
  int convolutions() const { return convolutions_; }

 private:
  void add_stem(ResNetStem stem);
  std::shared_ptr<nn::Sequential> new_stage(Index channels, int blocks, bool bottleneck,
                                            const BlockOptions& first);

  Index in_channels_;
  Index channels_;  // of the stage being built, then of the last one
  int convolutions_ = 1;
  std::shared_ptr<nn::Conv2d> conv1_;
  std::shared_ptr<nn::BatchNorm> bn1_;
  std::shared_ptr<nn::MaxPool2d> maxpool_;  // ImageNet stem only
  std::vector<std::shared_ptr<nn::Sequential>> stages_;
};

class ResNet final : public ResNetBody {
 public:
  explicit ResNet(const ResNetLayout& layout, const ResNetOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Index num_classes_;
  std::shared_ptr<nn::Linear> fc_;
};

// The layout of a depth in either family. Throws UserError for another depth.
ResNetLayout resnet_layout(int depth);
// As resnet_layout.
std::shared_ptr<ResNet> resnet(int depth, const ResNetOptions& options = {});

}  // namespace tandem::models
