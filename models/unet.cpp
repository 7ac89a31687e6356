#include "models/unet.h"

#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/pool.h"

namespace tandem::models {

namespace {

constexpr Index kMaxLevels = 10;

void add_convolution(nn::Sequential& layers, int number, Index in_channels, Index out_channels) {
  layers.add(std::to_string(number),
             std::make_shared<nn::Conv2d>(in_channels, out_channels, 3,
                                          nn::ConvOptions{.padding = {1, 1}, .bias = false}));
  layers.add(std::to_string(number + 1),
             std::make_shared<nn::BatchNorm>(out_channels, nn::BatchNormLayerOptions{.relu = true}));
}

}  // namespace

// The original's third position is a ReLU, fused into the batch norm here.
DoubleConv::DoubleConv(Index in_channels, Index out_channels)
    : double_conv_(add_child("double_conv", std::make_shared<nn::Sequential>())) {
  add_convolution(*double_conv_, 0, in_channels, out_channels);
  add_convolution(*double_conv_, 3, out_channels, out_channels);
}

UNetDown::UNetDown(Index in_channels, Index out_channels)
    : maxpool_conv_(add_child("maxpool_conv", std::make_shared<nn::Sequential>())) {
  maxpool_conv_->add(std::make_shared<nn::MaxPool2d>(2));
  maxpool_conv_->add(std::make_shared<DoubleConv>(in_channels, out_channels));
}

UNetUp::UNetUp(Index in_channels)
    : up_(add_child("up", std::make_shared<nn::ConvTranspose2d>(
                              in_channels, in_channels / 2, std::array<Index, 2>{2, 2},
                              nn::ConvTransposeOptions{{.stride = {2, 2}}}))),
      conv_(add_child("conv", std::make_shared<DoubleConv>(in_channels, in_channels / 2))) {}

Tensor UNetUp::forward_all(const TensorList& xs) {
  ensure(xs.size() == 2, "unet", "takes x and the skip connection, got {} inputs", xs.size());
  return (*conv_)(concat({xs[1], (*up_)(xs[0])}, -1));
}

UNet::UNet(const UNetOptions& options) : options_(options) {
  require(options.in_channels > 0 && options.num_classes > 0 && options.width > 0, "unet",
          "needs channels and classes, got {} input channels, {} classes, width {}", options.in_channels,
          options.num_classes, options.width);
  require(options.levels >= 1 && options.levels <= kMaxLevels, "unet", "levels {} must be 1 to {}",
          options.levels, kMaxLevels);
  Index channels = options.width;
  inc_ = add_child("inc", std::make_shared<DoubleConv>(options.in_channels, channels));
  for (Index level = 1; level <= options.levels; ++level, channels *= 2)
    down_.push_back(
        add_child("down" + std::to_string(level), std::make_shared<UNetDown>(channels, 2 * channels)));
  for (Index level = 1; level <= options.levels; ++level, channels /= 2)
    up_.push_back(add_child("up" + std::to_string(level), std::make_shared<UNetUp>(channels)));
  outc_ = add_child("outc", std::make_shared<nn::Sequential>());
  outc_->add("conv", std::make_shared<nn::Conv2d>(channels, options.num_classes, 1));
}

Tensor UNet::forward(const Tensor& x) {
  const Index multiple = Index{1} << options_.levels;
  require(x.rank() == 4 && x.size(1) % multiple == 0 && x.size(2) % multiple == 0, "unet",
          "{} levels halve an image {} times: its height and width must be multiples of {}, the input is {}",
          options_.levels, options_.levels, multiple, to_string(x.shape()));
  TensorList skips{(*inc_)(x)};
  for (const auto& down : down_) skips.push_back((*down)(skips.back()));
  Tensor y = std::move(skips.back());
  skips.pop_back();
  for (const auto& up : up_) {
    y = (*up)(TensorList{y, skips.back()});
    skips.pop_back();
  }
  return (*outc_)(y);
}

std::string UNet::describe() const {
  return fmt::format("U-Net({} channels → {} classes, width {}, {} levels)", options_.in_channels,
                     options_.num_classes, options_.width, options_.levels);
}

}  // namespace tandem::models
