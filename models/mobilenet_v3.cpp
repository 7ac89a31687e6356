#include "models/mobilenet_v3.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "nn/layers/activation.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"

namespace tandem::models {

namespace {

nn::ModulePtr activation_layer(MobileActivation activation) {
  if (activation == MobileActivation::relu6) return std::make_shared<nn::Relu6>();
  return std::make_shared<nn::Hardswish>();
}

// The nearest multiple of 8 that removes at most a tenth.
Index multiple_of_8(Index channels) {
  const Index nearest = std::max<Index>(8, (channels + 4) / 8 * 8);
  return 10 * nearest < 9 * channels ? nearest + 8 : nearest;
}

}  // namespace

std::shared_ptr<nn::Sequential> mobile_conv(const MobileConv& conv, const MobileNorm& norm) {
  const Index padding = conv.kernel / 2;
  const bool relu = conv.activation == MobileActivation::relu;  // fused into the batch norm
  auto layers = std::make_shared<nn::Sequential>();
  layers->add(std::make_shared<nn::Conv2d>(conv.in, conv.out, conv.kernel,
                                           nn::ConvOptions{.stride = {conv.stride, conv.stride},
                                                           .padding = {padding, padding},
                                                           .groups = conv.depthwise ? conv.in : 1,
                                                           .bias = false}));
  layers->add(std::make_shared<nn::BatchNorm>(
      conv.out, nn::BatchNormLayerOptions{.eps = norm.eps, .momentum = norm.momentum, .relu = relu}));
  if (conv.activation != MobileActivation::none && !relu) layers->add(activation_layer(conv.activation));
  return layers;
}

SqueezeExcitation::SqueezeExcitation(Index channels, Index squeezed)
    : channels_(channels),
      squeezed_(squeezed),
      fc1_(add_child("fc1", std::make_shared<nn::Conv2d>(channels, squeezed, 1))),
      fc2_(add_child("fc2", std::make_shared<nn::Conv2d>(squeezed, channels, 1))) {}

Tensor SqueezeExcitation::forward(const Tensor& x) {
  const Tensor means = reshape(global_avg_pool2d(x), {x.size(0), 1, 1, channels_});
  return mul(x, hardsigmoid((*fc2_)(relu((*fc1_)(means)))));
}

std::string SqueezeExcitation::describe() const {
  return fmt::format("SqueezeExcitation({} -> {})", channels_, squeezed_);
}

std::vector<nn::ModulePtr> inverted_residual_layers(const InvertedResidualShape& shape,
                                                    const MobileNorm& norm) {
  std::vector<nn::ModulePtr> layers;
  if (shape.expanded != shape.in)
    layers.push_back(
        mobile_conv({.in = shape.in, .out = shape.expanded, .activation = shape.activation}, norm));
  layers.push_back(mobile_conv({.in = shape.expanded,
                                .out = shape.expanded,
                                .kernel = shape.kernel,
                                .stride = shape.stride,
                                .depthwise = true,
                                .activation = shape.activation},
                               norm));
  if (shape.squeeze)
    layers.push_back(std::make_shared<SqueezeExcitation>(shape.expanded, multiple_of_8(shape.expanded / 4)));
  layers.push_back(mobile_conv({.in = shape.expanded, .out = shape.out}, norm));
  return layers;
}

InvertedResidual::InvertedResidual(const InvertedResidualShape& shape, const MobileNorm& norm)
    : adds_input_(shape.adds_input()), block_(add_child("block", std::make_shared<nn::Sequential>())) {
  for (const auto& layer : inverted_residual_layers(shape, norm)) block_->add(layer);
}

Tensor InvertedResidual::forward(const Tensor& x) {
  const Tensor y = (*block_)(x);
  return adds_input_ ? add(y, x) : y;
}

std::vector<InvertedResidualShape> mobilenet_v3_large(bool reduced_tail) {
  constexpr auto relu = MobileActivation::relu, hard = MobileActivation::hardswish;
  const Index out = reduced_tail ? 80 : 160, expanded = 6 * out;
  return {{16, 3, 16, 16, false, relu, 1},       {16, 3, 64, 24, false, relu, 2},
          {24, 3, 72, 24, false, relu, 1},       {24, 5, 72, 40, true, relu, 2},
          {40, 5, 120, 40, true, relu, 1},       {40, 5, 120, 40, true, relu, 1},
          {40, 3, 240, 80, false, hard, 2},      {80, 3, 200, 80, false, hard, 1},
          {80, 3, 184, 80, false, hard, 1},      {80, 3, 184, 80, false, hard, 1},
          {80, 3, 480, 112, true, hard, 1},      {112, 3, 672, 112, true, hard, 1},
          {112, 5, 672, out, true, hard, 2},     {out, 5, expanded, out, true, hard, 1},
          {out, 5, expanded, out, true, hard, 1}};
}

MobileConv mobilenet_v3_first() {
  return {.in = 3, .out = 16, .kernel = 3, .stride = 2, .activation = MobileActivation::hardswish};
}

MobileConv mobilenet_v3_last(const std::vector<InvertedResidualShape>& blocks) {
  const Index in = blocks.back().out;
  return {.in = in, .out = 6 * in, .activation = MobileActivation::hardswish};
}

}  // namespace tandem::models
