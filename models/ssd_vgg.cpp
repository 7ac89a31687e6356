#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "models/ssd_bodies.h"
#include "nn/init.h"
#include "nn/layers/activation.h"

namespace tandem::models {

namespace {

constexpr double kFirstScale = 20.0, kLeastLength = 1e-12;
constexpr Index kConv4 = 512, kFc7 = 1024;

std::shared_ptr<nn::Conv2d> vgg_convolution(Index in, Index out, Index kernel,
                                            const nn::ConvOptions& given = {}) {
  nn::ConvOptions options = given;
  options.init = nn::WeightInit::xavier_uniform;
  return std::make_shared<nn::Conv2d>(in, out, kernel, options);
}

// VGG-16's 3×3 convolutions with ReLU, two positions each, from `place` on. Initialisation is torchvision's:
// with Xavier a signal would lose half of its variance in each of the 13.
int add_convolutions(nn::Sequential& to, int place, Index in, Index out, int count) {
  for (int i = 0; i < count; ++i, place += 2) {
    to.add(std::to_string(place),
           std::make_shared<nn::Conv2d>(
               i == 0 ? in : out, out, 3,
               nn::ConvOptions{.padding = {1, 1}, .init = nn::WeightInit::kaiming_normal_fan_out}));
    to.add(std::to_string(place + 1), std::make_shared<nn::Relu>());
  }
  return place;
}

std::shared_ptr<nn::MaxPool2d> halving() { return std::make_shared<nn::MaxPool2d>(Index{2}); }

// Pads to even extents with zeros, which do not affect the maximum of non-negative values: pooling that
// rounds up.
Tensor evened(const Tensor& x) {
  const Index rows = x.size(1) % 2, columns = x.size(2) % 2;
  return rows + columns == 0 ? x : pad(x, {0, 0, 0, 0}, {0, rows, columns, 0});
}

// conv5 and the two fully connected layers converted to convolutions.
std::shared_ptr<nn::Sequential> conv5_to_fc7() {
  auto fc = std::make_shared<nn::Sequential>();
  fc->add(
      std::make_shared<nn::MaxPool2d>(Pool2dOptions{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}));
  fc->add(vgg_convolution(kConv4, kFc7, 3, {.padding = {6, 6}, .dilation = {6, 6}}));
  fc->add(std::make_shared<nn::Relu>());
  fc->add(vgg_convolution(kFc7, kFc7, 1));
  fc->add(std::make_shared<nn::Relu>());
  auto block = std::make_shared<nn::Sequential>();
  block->add("0", halving());
  add_convolutions(*block, 1, kConv4, kConv4, 3);
  block->add("7", fc);
  return block;
}

std::shared_ptr<nn::Sequential> extra_block(Index in, const ExtraLayer& layer) {
  auto block = std::make_shared<nn::Sequential>();
  block->add(vgg_convolution(in, layer.inner, 1));
  block->add(std::make_shared<nn::Relu>());
  block->add(
      vgg_convolution(layer.inner, layer.out, layer.kernel,
                      {.stride = {layer.stride, layer.stride}, .padding = {layer.padding, layer.padding}}));
  block->add(std::make_shared<nn::Relu>());
  return block;
}

}  // namespace

std::vector<ExtraLayer> vgg_extras_300() {
  return {{256, 512, 2, 1}, {128, 256, 2, 1}, {128, 256, 1, 0}, {128, 256, 1, 0}};
}

std::vector<ExtraLayer> vgg_extras_512() {
  return {{256, 512, 2, 1}, {128, 256, 2, 1}, {128, 256, 2, 1}, {128, 256, 2, 1}, {128, 256, 1, 1, 4}};
}

VggDetectorBody::VggDetectorBody(const std::vector<ExtraLayer>& extra) : channels_{kConv4, kFc7} {
  const Tensor scale = nn::parameter_memory({kConv4});
  nn::init::constant(scale, kFirstScale);
  scale_weight_ = add_parameter("scale_weight", Parameter(scale));
  features_ = add_child("features", std::make_shared<nn::Sequential>());
  int place = add_convolutions(*features_, 0, 3, 64, 2);
  features_->add(std::to_string(place++), halving());
  place = add_convolutions(*features_, place, 64, 128, 2);
  features_->add(std::to_string(place++), halving());
  add_convolutions(*features_, place, 128, 256, 3);
  place = 17;
  add_convolutions(*features_, place, 256, kConv4, 3);
  const auto list = add_child("extra", std::make_shared<nn::Sequential>());
  extra_.push_back(conv5_to_fc7());
  for (const ExtraLayer& layer : extra) {
    extra_.push_back(extra_block(channels_.back(), layer));
    channels_.push_back(layer.out);
  }
  for (const auto& block : extra_) list->add(block);
}

ForeignNames VggDetectorBody::classifier_names(const safetensors::File& file) const {
  if (!file.find("features.0.weight")) return {};
  // The layers after conv4_3 here come after its pooling.
  return under({{"features.24.", "extra.0.1."},
                {"features.26.", "extra.0.3."},
                {"features.28.", "extra.0.5."},
                {"features.", "features."}});
}

TensorList VggDetectorBody::maps(const Tensor& images) {
  // The third pooling, at position 16, rounds up.
  Tensor x = images;
  for (const auto& [name, layer] : features_->children()) {
    if (name == "17") x = max_pool2d(evened(x), {});
    x = (*layer)(x);
  }
  const Tensor length = sqrt(sum(square(x), {3}, true));
  TensorList maps{
      mul(x, div(scale_weight_, clamp(length, kLeastLength, std::numeric_limits<double>::infinity())))};
  for (const auto& block : extra_) {
    x = (*block)(x);
    maps.push_back(x);
  }
  return maps;
}

}  // namespace tandem::models
