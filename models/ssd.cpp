#include "models/ssd.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/boxes.h"
#include "core/error.h"
#include "models/ssd_lite.h"
#include "nn/init.h"
#include "nn/layers/conv.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// Of what an anchor's side is multiplied by (torchvision); find_boxes in tasks/detection has the same one.
const double kMostLogarithm = std::log(1000.0 / 16.0);

}  // namespace

// What every anchor gets so many numbers from: a predictor a map.
class Ssd::Head final : public nn::Module {
 public:
  Head(const std::vector<Index>& channels, const SsdOptions& options, Index values) : values_(values) {
    const auto list = add_child("module_list", std::make_shared<nn::Sequential>());
    for (std::size_t level = 0; level < channels.size(); ++level) {
      const Index out = options.anchors.levels[level].per_cell() * values;
      predictors_.push_back(options.lite ? lite_predictor(channels[level], out)
                                         : predictor(channels[level], out));
      list->add(predictors_.back());
    }
  }

  Tensor forward_all(const TensorList& maps) override {
    TensorList levels;
    for (std::size_t level = 0; level < predictors_.size(); ++level) {
      const Tensor y = (*predictors_[level])(maps.at(level));
      levels.push_back(reshape(y, {y.size(0), y.size(1) * y.size(2) * y.size(3) / values_, values_}));
    }
    return concat(levels, 1);
  }
  std::string describe() const override { return fmt::format("DetectionHead({} values an anchor)", values_); }

 private:
  static nn::ModulePtr predictor(Index in, Index out) {
    auto convolution = std::make_shared<nn::Conv2d>(
        in, out, 3, nn::ConvOptions{.padding = {1, 1}, .init = nn::WeightInit::xavier_uniform});
    nn::init::zeros(convolution->bias().value());
    return convolution;
  }

  Index values_;
  std::vector<nn::ModulePtr> predictors_;
};

namespace {

// Two columns of [A,4], from `first` on.
Tensor columns(const Tensor& anchors, std::size_t first) {
  const std::vector<float> all = anchors.to_vector<float>();
  std::vector<float> two;
  for (std::size_t at = first; at < all.size(); at += 4) two.insert(two.end(), {all[at], all[at + 1]});
  return Tensor::from(two, {anchors.size(0), 2});
}

// A name above both heads.
class Heads final : public nn::Module {
 public:
  std::string describe() const override { return "Heads"; }
  void add(const std::string& name, nn::ModulePtr head) { add_child(name, std::move(head)); }
};

}  // namespace

Ssd::Ssd(std::shared_ptr<DetectorBody> body, const SsdOptions& options)
    : options_(options), body_(add_child("backbone", std::move(body))) {
  require(options_.num_classes >= 2, "ssd", "num_classes counts the background, so it is 2 at least, got {}",
          options_.num_classes);
  const std::vector<Index> channels = body_->channels();
  require(channels.size() == options_.anchors.levels.size(), "ssd",
          "the body has {} maps, the anchors have {} levels", channels.size(),
          options_.anchors.levels.size());
  const auto heads = std::make_shared<Heads>();
  add_child("head", heads);
  classes_ = std::make_shared<Head>(channels, options_, options_.num_classes);
  boxes_ = std::make_shared<Head>(channels, options_, 4);
  heads->add("classification_head", classes_);
  heads->add("regression_head", boxes_);
  const Tensor anchors = options_.anchors.boxes(options_.clip);
  anchors_ = add_constant("anchors", anchors);
  centres_ = add_constant("anchor_centres", columns(anchors, 0));
  sizes_ = add_constant("anchor_sizes", columns(anchors, 2));
}

void Ssd::check_maps(const TensorList& maps) const {
  for (std::size_t level = 0; level < maps.size(); ++level) {
    const Index cells = options_.anchors.levels[level].cells;
    require(maps[level].size(1) == cells && maps[level].size(2) == cells, "ssd",
            "map {} has {}×{} cells, the anchors have {}×{}: they are for images of {}×{}", level,
            maps[level].size(1), maps[level].size(2), cells, cells, options_.anchors.image_size,
            options_.anchors.image_size);
  }
}

Ssd::Output Ssd::operator()(const Tensor& images) {
  const TensorList both = all_outputs({images});
  return {both[0], both[1]};
}

TensorList Ssd::forward_outputs(const TensorList& xs) {
  const TensorList maps = body_->all_outputs(xs);
  check_maps(maps);
  return {(*classes_)(maps), (*boxes_)(maps)};
}

TensorList Ssd::decoded(const Tensor& images) {
  const Output output = (*this)(images);
  const auto variances = BoxMatchOptions{}.variances;
  const Tensor centres = centres_ + slice(output.codes, 2, 0, 2) * variances[0] * sizes_;
  const Tensor logarithms = clamp(slice(output.codes, 2, 2, 4) * variances[1], -kUnbounded, kMostLogarithm);
  const Tensor halves = exp(logarithms) * sizes_ * 0.5;
  return {clamp(concat({centres - halves, centres + halves}, 2), 0.0, 1.0), softmax(output.scores, 2)};
}

std::string Ssd::describe() const {
  return fmt::format("Ssd({} classes, {} anchors)", options_.num_classes, anchors_.size(0));
}

}  // namespace tandem::models
