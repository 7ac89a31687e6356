#include "models/resnet.h"

#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::models {

namespace {

using nn::BatchNorm;
using nn::Conv2d;
using nn::conv_norm;
using nn::WeightInit;

std::shared_ptr<Conv2d> convolution(Index in, Index out, Index kernel, Index stride) {
  const Index padding = kernel / 2;
  return std::make_shared<Conv2d>(in, out, kernel,
                                  nn::ConvOptions{.stride = {stride, stride},
                                                  .padding = {padding, padding},
                                                  .bias = false,
                                                  .init = WeightInit::kaiming_normal_fan_out});
}

std::shared_ptr<BatchNorm> normalisation(Index channels, bool relu, bool zero_gamma = false) {
  return std::make_shared<BatchNorm>(channels,
                                     nn::BatchNormLayerOptions{.relu = relu, .zero_gamma = zero_gamma});
}

// nullptr if the shapes agree already, and for option A.
std::shared_ptr<nn::Sequential> new_projection(Index in, Index out, const BlockOptions& options) {
  if (options.shortcut == ResNetShortcut::padding || (options.stride == 1 && in == out)) return nullptr;
  auto projection = std::make_shared<nn::Sequential>();
  projection->add(convolution(in, out, 1, options.stride)).add(normalisation(out, false));
  return projection;
}

}  // namespace

Shortcut::Shortcut(std::shared_ptr<nn::Sequential> projection, Index in_channels, Index out_channels,
                   Index stride)
    : projection_(std::move(projection)),
      in_channels_(in_channels),
      out_channels_(out_channels),
      stride_(stride) {
  require(projection_ || in_channels <= out_channels, "resnet",
          "a shortcut by padding cannot go from {} to {} channels; use a projection", in_channels,
          out_channels);
}

Tensor Shortcut::operator()(const Tensor& x) const {
  if (projection_) return (*projection_)(x);
  Tensor y = x;
  if (stride_ != 1) {
    y = slice(y, 1, 0, y.size(1), stride_);
    y = slice(y, 2, 0, y.size(2), stride_);
  }
  const Index missing = out_channels_ - in_channels_;
  if (missing > 0) y = pad(y, {0, 0, 0, missing / 2}, {0, 0, 0, missing - missing / 2});
  return y;
}

BasicBlock::BasicBlock(Index in_channels, Index channels, const BlockOptions& options) {
  conv1_ = add_child("conv1", convolution(in_channels, channels, 3, options.stride));
  bn1_ = add_child("bn1", normalisation(channels, true));
  conv2_ = add_child("conv2", convolution(channels, channels, 3, 1));
  bn2_ = add_child("bn2", normalisation(channels, true, options.zero_init_residual));
  auto projection = new_projection(in_channels, channels, options);
  if (projection) add_child("downsample", projection);
  shortcut_ = Shortcut(std::move(projection), in_channels, channels, options.stride);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor inner = conv_norm(*conv1_, *bn1_, x);
  return conv_norm(*conv2_, *bn2_, inner, [&] { return shortcut_(x); });
}

std::string BasicBlock::describe() const { return "BasicBlock"; }

Bottleneck::Bottleneck(Index in_channels, Index channels, const BlockOptions& options) {
  const Index out_channels = channels * kExpansion;
  conv1_ = add_child("conv1", convolution(in_channels, channels, 1, 1));
  bn1_ = add_child("bn1", normalisation(channels, true));
  conv2_ = add_child("conv2", convolution(channels, channels, 3, options.stride));
  bn2_ = add_child("bn2", normalisation(channels, true));
  conv3_ = add_child("conv3", convolution(channels, out_channels, 1, 1));
  bn3_ = add_child("bn3", normalisation(out_channels, true, options.zero_init_residual));
  auto projection = new_projection(in_channels, out_channels, options);
  if (projection) add_child("downsample", projection);
  shortcut_ = Shortcut(std::move(projection), in_channels, out_channels, options.stride);
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor inner = conv_norm(*conv2_, *bn2_, conv_norm(*conv1_, *bn1_, x));
  return conv_norm(*conv3_, *bn3_, inner, [&] { return shortcut_(x); });
}

std::string Bottleneck::describe() const { return "Bottleneck"; }

ResNetBody::ResNetBody(const ResNetLayout& layout, const ResNetOptions& options,
                       const std::vector<Index>& strides)
    : in_channels_(options.in_channels), channels_(options.width > 0 ? options.width : layout.width) {
  require(in_channels_ > 0 && channels_ > 0 && !layout.blocks.empty(), "resnet",
          "needs channels and stages, got {} input channels, width {}, {} stages", in_channels_, channels_,
          layout.blocks.size());
  add_stem(options.stem.value_or(layout.stem));
  Index channels = channels_;
  for (std::size_t stage = 0; stage < layout.blocks.size(); ++stage) {
    require(layout.blocks[stage] > 0, "resnet", "stage {} has no blocks", stage + 1);
    const Index stride = !strides.empty() ? strides.at(stage) : stage == 0 ? 1 : 2;
    const BlockOptions first{stride, options.zero_init_residual, options.shortcut};
    stages_.push_back(add_child("layer" + std::to_string(stage + 1),
                                new_stage(channels, layout.blocks[stage], layout.bottleneck, first)));
    channels *= 2;
  }
}

void ResNetBody::add_stem(ResNetStem stem) {
  const bool large = stem == ResNetStem::imagenet;
  conv1_ = add_child("conv1", convolution(in_channels_, channels_, large ? 7 : 3, large ? 2 : 1));
  bn1_ = add_child("bn1", normalisation(channels_, true));
  if (!large) return;
  maxpool_ = add_child("maxpool", std::make_shared<nn::MaxPool2d>(
                                      Pool2dOptions{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
}

std::shared_ptr<nn::Sequential> ResNetBody::new_stage(Index channels, int blocks, bool bottleneck,
                                                      const BlockOptions& first) {
  auto stage = std::make_shared<nn::Sequential>();
  for (int i = 0; i < blocks; ++i) {
    BlockOptions block = first;
    if (i > 0) block.stride = 1;
    if (bottleneck) {
      stage->add(std::make_shared<Bottleneck>(channels_, channels, block));
      channels_ = channels * Bottleneck::kExpansion;
    } else {
      stage->add(std::make_shared<BasicBlock>(channels_, channels, block));
      channels_ = channels * BasicBlock::kExpansion;
    }
    convolutions_ += bottleneck ? 3 : 2;
  }
  return stage;
}

Tensor ResNetBody::features(const Tensor& x) {
  Tensor y = conv_norm(*conv1_, *bn1_, x);
  if (maxpool_) y = (*maxpool_)(y);
  for (const auto& stage : stages_) y = (*stage)(y);
  return y;
}

std::string ResNetBody::describe() const {
  return fmt::format("ResNetBody({} channels → {})", in_channels_, channels_);
}

ResNet::ResNet(const ResNetLayout& layout, const ResNetOptions& options)
    : ResNetBody(layout, options),
      num_classes_(options.num_classes > 0 ? options.num_classes : layout.num_classes) {
  require(num_classes_ > 0, "resnet", "needs classes, got {}", num_classes_);
  fc_ = add_child("fc", std::make_shared<nn::Linear>(out_channels(), num_classes_));
}

Tensor ResNet::forward(const Tensor& x) { return (*fc_)(global_avg_pool2d(features(x))); }

std::string ResNet::describe() const {
  return fmt::format("ResNet-{}({} channels → {} classes)", convolutions() + 1, in_channels(), num_classes_);
}

ResNetLayout resnet_layout(int depth) {
  ResNetLayout layout;
  switch (depth) {
    case 18:
      layout.blocks = {2, 2, 2, 2};
      break;
    case 34:
      layout.blocks = {3, 4, 6, 3};
      break;
    case 50:
      layout = {.blocks = {3, 4, 6, 3}, .bottleneck = true};
      break;
    case 101:
      layout = {.blocks = {3, 4, 23, 3}, .bottleneck = true};
      break;
    case 152:
      layout = {.blocks = {3, 8, 36, 3}, .bottleneck = true};
      break;
    default: {
      require(depth >= 8 && depth % 6 == 2, "resnet",
              "depth {} is in neither family: 18, 34, 50, 101, 152 or 6n+2 (20, 32, 44, 56, 110)", depth);
      const int blocks = (depth - 2) / 6;
      layout = {
          .blocks = {blocks, blocks, blocks}, .stem = ResNetStem::cifar, .width = 16, .num_classes = 10};
    }
  }
  return layout;
}

std::shared_ptr<ResNet> resnet(int depth, const ResNetOptions& options) {
  return std::make_shared<ResNet>(resnet_layout(depth), options);
}

}  // namespace tandem::models
