#include "models/ssd_heads.h"

#include "autograd/ops/conv.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

namespace {

// For kernels that work on panels of channels (core/cpu/conv_panels.h), and for tensor cores.
constexpr Index kWholeChannels = 16;

// One head's channels of a map's convolution: the weights of a 3×3 convolution, and the reshaping of its
// outputs.
class HeadChannels final : public nn::Module {
 public:
  HeadChannels(Index in, Index anchors, Index values) : values_(values) {
    const Tensor weight = nn::parameter_memory({anchors * values, 3, 3, in});
    nn::initialise(weight, nn::WeightInit::xavier_uniform);
    weight_ = add_parameter("weight", Parameter(weight, ParameterLayout::filter));
    const Tensor bias = nn::parameter_memory({anchors * values});
    nn::init::zeros(bias);
    bias_ = add_parameter("bias", Parameter(bias));
  }
  Tensor weight() const { return weight_; }
  Tensor bias() const { return bias_; }

  // [N,H,W,anchors·values] → [N,H·W·anchors,values].
  Tensor forward(const Tensor& y) override {
    return reshape(y, {y.size(0), y.size(1) * y.size(2) * (y.size(3) / values_), values_});
  }
  std::string describe() const override {
    const Shape& filter = weight_.value().shape();
    return fmt::format("Conv2d({} → {}, 3×3, padding 1), with the other head", filter[3], filter[0]);
  }

 private:
  Index values_;
  Parameter weight_, bias_;
};

// Appends `rest` zeros along the first axis.
Tensor filled_up(const Tensor& x, Index rest) {
  std::vector<Index> none(static_cast<std::size_t>(x.rank())), after = none;
  after[0] = rest;
  return rest == 0 ? x : pad(x, none, after);
}

// Runs both 3×3 convolutions of a map as one, which reads it once: channels of both, then zeros up to a whole
// number of panels, since 4·81 is not.
std::array<Tensor, 2> convolve_together(const Tensor& map, const HeadChannels& a, const HeadChannels& b) {
  const Tensor weights[] = {a.weight(), b.weight()}, biases[] = {a.bias(), b.bias()};
  const Index first = weights[0].size(0), second = weights[1].size(0);
  const Index rest = (kWholeChannels - (first + second) % kWholeChannels) % kWholeChannels;
  const Tensor y = conv2d(map, concat({weights[0], filled_up(weights[1], rest)}, 0),
                          concat({biases[0], filled_up(biases[1], rest)}, 0), {.padding = {1, 1}});
  const TensorList parts = split(y, {first, second, rest}, 3);
  return {parts[0], parts[1]};
}

}  // namespace

// Head that computes a fixed number of values per anchor.
class SsdHeads::Head final : public nn::Module {
 public:
  Head(const std::vector<Index>& channels, const AnchorGrid& anchors, Index values) : values_(values) {
    const auto list = add_child("module_list", std::make_shared<nn::Sequential>());
    for (std::size_t level = 0; level < channels.size(); ++level) {
      levels_.push_back(
          std::make_shared<HeadChannels>(channels[level], anchors.levels[level].per_cell(), values));
      list->add(levels_.back());
    }
  }
  const HeadChannels& level(std::size_t level) const { return *levels_[level]; }

  // Its channels of every map.
  Tensor forward_all(const TensorList& parts) override {
    TensorList levels;
    for (std::size_t level = 0; level < levels_.size(); ++level)
      levels.push_back((*levels_[level])(parts.at(level)));
    return concat(levels, 1);
  }
  std::string describe() const override { return fmt::format("DetectionHead({} values an anchor)", values_); }

 private:
  Index values_;
  std::vector<std::shared_ptr<HeadChannels>> levels_;
};

SsdHeads::SsdHeads(const std::vector<Index>& channels, const AnchorGrid& anchors, Index classes)
    : classes_(add_child("classification_head", std::make_shared<Head>(channels, anchors, classes))),
      boxes_(add_child("regression_head", std::make_shared<Head>(channels, anchors, 4))) {}

TensorList SsdHeads::forward_outputs(const TensorList& maps) {
  TensorList scores, codes;
  for (std::size_t level = 0; level < maps.size(); ++level) {
    const auto parts = convolve_together(maps[level], classes_->level(level), boxes_->level(level));
    scores.push_back(parts[0]);
    codes.push_back(parts[1]);
  }
  return {(*classes_)(scores), (*boxes_)(codes)};
}

}  // namespace tandem::models
