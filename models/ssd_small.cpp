#include "models/ssd_bodies.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"

namespace tandem::models {

namespace {

constexpr int kExtraMaps = 2;

void add_convolution(nn::Sequential& to, Index in, Index out, Index kernel, Index stride) {
  to.add(std::make_shared<nn::Conv2d>(in, out, kernel,
                                      nn::ConvOptions{.stride = {stride, stride},
                                                      .padding = {kernel / 2, kernel / 2},
                                                      .bias = false,
                                                      .init = nn::WeightInit::kaiming_normal_fan_out}));
  to.add(std::make_shared<nn::BatchNorm>(out, nn::BatchNormLayerOptions{.relu = true}));
}

}  // namespace

SmallDetectorBody::SmallDetectorBody(Index width, Index in_channels)
    : width_(width), features_(add_child("features", std::make_shared<nn::Sequential>())) {
  Index channels = in_channels, out = width;
  for (int halving = 0; halving < 3; ++halving, out *= 2) {
    add_convolution(*features_, channels, out, 3, 2);
    add_convolution(*features_, out, 2 * out, 3, 1);
    channels = 2 * out;
  }
  const auto list = add_child("extra", std::make_shared<nn::Sequential>());
  for (int map = 0; map < kExtraMaps; ++map) {
    auto extra = std::make_shared<nn::Sequential>();
    add_convolution(*extra, channels, channels / 2, 1, 1);
    add_convolution(*extra, channels / 2, channels, 3, 2);
    list->add(extra);
    extra_.push_back(std::move(extra));
  }
}

std::vector<Index> SmallDetectorBody::channels() const {
  return std::vector<Index>(1 + kExtraMaps, 8 * width_);
}

TensorList SmallDetectorBody::maps(const Tensor& images) {
  TensorList maps{(*features_)(images)};
  for (const auto& extra : extra_) maps.push_back((*extra)(maps.back()));
  return maps;
}

}  // namespace tandem::models
