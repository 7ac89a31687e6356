#include "models/ssd.h"

#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

// What every anchor gets so many numbers from: a convolution a map.
class Ssd::Head final : public nn::Module {
 public:
  Head(const std::vector<Index>& channels, const AnchorGrid& anchors, Index values) : values_(values) {
    const auto list = add_child("module_list", std::make_shared<nn::Sequential>());
    for (std::size_t level = 0; level < channels.size(); ++level) {
      convolutions_.push_back(std::make_shared<nn::Conv2d>(
          channels[level], anchors.levels[level].per_cell() * values, 3,
          nn::ConvOptions{.padding = {1, 1}, .init = nn::WeightInit::xavier_uniform}));
      nn::init::zeros(convolutions_.back()->bias().value());
      list->add(convolutions_.back());
    }
  }

  Tensor forward_all(const TensorList& maps) override {
    TensorList levels;
    for (std::size_t level = 0; level < convolutions_.size(); ++level) {
      const Tensor y = (*convolutions_[level])(maps.at(level));
      levels.push_back(
          reshape(y, {y.size(0), y.numel() / (std::max<Index>(y.size(0), 1) * values_), values_}));
    }
    return concat(levels, 1);
  }
  std::string describe() const override { return fmt::format("DetectionHead({} values an anchor)", values_); }

 private:
  Index values_;
  std::vector<std::shared_ptr<nn::Conv2d>> convolutions_;
};

namespace {

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
  classes_ = std::make_shared<Head>(channels, options_.anchors, options_.num_classes);
  boxes_ = std::make_shared<Head>(channels, options_.anchors, 4);
  heads->add("classification_head", classes_);
  heads->add("regression_head", boxes_);
  anchors_ = add_constant("anchors", options_.anchors.boxes(options_.clip));
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

std::string Ssd::describe() const {
  return fmt::format("Ssd({} classes, {} anchors)", options_.num_classes, anchors_.size(0));
}

}  // namespace tandem::models
