#include "models/ssd_lite.h"

#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/mobilenet_v3.h"
#include "nn/init.h"
#include "nn/layers/conv.h"

namespace tandem::models {

namespace {

constexpr MobileNorm kLiteNorm{.eps = 1e-3, .momentum = 0.03};
constexpr double kLiteDeviation = 0.03;
constexpr auto kRelu6 = MobileActivation::relu6;

// Initialises filters only, not batch norms.
void start_normal(const nn::Module& module) {
  for (const Parameter& parameter : module.parameters()) {
    if (parameter.value().rank() == 4) nn::init::normal(parameter.value(), 0.0, kLiteDeviation);
    if (parameter.name().ends_with("bias")) nn::init::zeros(parameter.value());
  }
}

std::shared_ptr<nn::Sequential> lite_extra(Index in, Index out) {
  const Index half = out / 2;
  auto block = std::make_shared<nn::Sequential>();
  block->add(mobile_conv({.in = in, .out = half, .activation = kRelu6}, kLiteNorm));
  block->add(mobile_conv(
      {.in = half, .out = half, .kernel = 3, .stride = 2, .depthwise = true, .activation = kRelu6},
      kLiteNorm));
  block->add(mobile_conv({.in = half, .out = out, .activation = kRelu6}, kLiteNorm));
  return block;
}

// The network in two parts; the layers of the divided block keep their positions as names.
std::vector<std::shared_ptr<nn::Sequential>> mobilenet_parts() {
  const auto blocks = mobilenet_v3_large(true);
  auto before = std::make_shared<nn::Sequential>(), after = std::make_shared<nn::Sequential>();
  before->add(mobile_conv(mobilenet_v3_first(), kLiteNorm));
  const std::size_t cut = blocks.size() - 3;
  for (std::size_t i = 0; i < cut; ++i) before->add(std::make_shared<InvertedResidual>(blocks[i], kLiteNorm));
  const auto layers = inverted_residual_layers(blocks[cut], kLiteNorm);
  before->add(layers.front());
  auto rest = std::make_shared<nn::Sequential>();
  for (std::size_t i = 1; i < layers.size(); ++i) rest->add(std::to_string(i), layers[i]);
  after->add(rest);
  for (std::size_t i = cut + 1; i < blocks.size(); ++i)
    after->add(std::make_shared<InvertedResidual>(blocks[i], kLiteNorm));
  after->add(mobile_conv(mobilenet_v3_last(blocks), kLiteNorm));
  return {before, after};
}

// Predictor for one map.
std::shared_ptr<nn::Sequential> lite_predictor(Index in, Index out) {
  auto layers = std::make_shared<nn::Sequential>();
  layers->add(
      mobile_conv({.in = in, .out = in, .kernel = 3, .depthwise = true, .activation = kRelu6}, kLiteNorm));
  layers->add(std::make_shared<nn::Conv2d>(in, out, 1));
  start_normal(*layers);
  return layers;
}

}  // namespace

// Head that computes a fixed number of values per anchor.
class LiteHeads::Head final : public nn::Module {
 public:
  Head(const std::vector<Index>& channels, const AnchorGrid& anchors, Index values) : values_(values) {
    const auto list = add_child("module_list", std::make_shared<nn::Sequential>());
    for (std::size_t level = 0; level < channels.size(); ++level) {
      predictors_.push_back(lite_predictor(channels[level], anchors.levels[level].per_cell() * values));
      list->add(predictors_.back());
    }
  }

  Tensor forward_all(const TensorList& maps) override {
    TensorList levels;
    for (std::size_t level = 0; level < predictors_.size(); ++level) {
      const Tensor y = (*predictors_[level])(maps.at(level));
      levels.push_back(reshape(y, {y.size(0), y.size(1) * y.size(2) * (y.size(3) / values_), values_}));
    }
    return concat(levels, 1);
  }
  std::string describe() const override { return fmt::format("DetectionHead({} values an anchor)", values_); }

 private:
  Index values_;
  std::vector<std::shared_ptr<nn::Sequential>> predictors_;
};

LiteHeads::LiteHeads(const std::vector<Index>& channels, const AnchorGrid& anchors, Index classes)
    : classes_(add_child("classification_head", std::make_shared<Head>(channels, anchors, classes))),
      boxes_(add_child("regression_head", std::make_shared<Head>(channels, anchors, 4))) {}

TensorList LiteHeads::forward_outputs(const TensorList& maps) { return {(*classes_)(maps), (*boxes_)(maps)}; }

MobileNetDetectorBody::MobileNetDetectorBody() : parts_(mobilenet_parts()) {
  const auto blocks = mobilenet_v3_large(true);
  channels_ = {blocks[blocks.size() - 3].expanded, mobilenet_v3_last(blocks).out};
  const auto features = add_child("features", std::make_shared<nn::Sequential>());
  for (const auto& part : parts_) features->add(part);
  const auto extra = add_child("extra", std::make_shared<nn::Sequential>());
  for (const Index out : {512, 256, 256, 128}) {
    parts_.push_back(lite_extra(channels_.back(), out));
    extra->add(parts_.back());
    channels_.push_back(out);
  }
  start_normal(*this);
}

TensorList MobileNetDetectorBody::maps(const Tensor& images) {
  TensorList maps;
  for (const auto& part : parts_) maps.push_back((*part)(maps.empty() ? images : maps.back()));
  return maps;
}

}  // namespace tandem::models
