#include "models/ssd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "core/op_options.h"
#include "models/box_finder.h"
#include "models/ssd_heads.h"
#include "models/ssd_lite.h"

namespace tandem::models {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// Upper bound on the factor of an anchor's side (torchvision), as in models/box_suppression.cpp.
const double kMostLogarithm = std::log(1000.0 / 16.0);

// Columns `first` and `first` + 1 of the anchors [A,4].
Tensor columns(const SsdOptions& options, std::size_t first) {
  const std::vector<float> all = options.anchors.boxes(options.clip).to_vector<float>();
  std::vector<float> two;
  for (std::size_t at = first; at < all.size(); at += 4) two.insert(two.end(), {all[at], all[at + 1]});
  return Tensor::from(two, {options.anchors.count(), 2});
}

nn::ModulePtr heads_of(const std::vector<Index>& channels, const SsdOptions& options) {
  if (options.lite) return std::make_shared<LiteHeads>(channels, options.anchors, options.num_classes);
  return std::make_shared<SsdHeads>(channels, options.anchors, options.num_classes);
}

}  // namespace

Ssd::Ssd(std::shared_ptr<DetectorBody> body, const SsdOptions& options)
    : options_(options),
      body_(add_child("backbone", std::move(body))),
      anchors_(add_constant("anchors", options_.anchors.boxes(options_.clip))),
      centres_(add_constant("anchor_centres", columns(options_, 0))),
      sizes_(add_constant("anchor_sizes", columns(options_, 2))) {
  require(options_.num_classes >= 2, "ssd",
          "num_classes includes the background and must be at least 2, got {}", options_.num_classes);
  const std::vector<Index> channels = body_->channels();
  require(channels.size() == options_.anchors.levels.size(), "ssd",
          "the body has {} maps, the anchors have {} levels", channels.size(),
          options_.anchors.levels.size());
  heads_ = add_child("head", heads_of(channels, options_));
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

AnchorOutput Ssd::operator()(const Tensor& images) {
  const TensorList both = all_outputs({images});
  return {both[0], both[1]};
}

TensorList Ssd::forward_outputs(const TensorList& xs) {
  const TensorList maps = body_->all_outputs(xs);
  check_maps(maps);
  return heads_->all_outputs(maps);
}

Tensor Ssd::loss(const TensorList& outputs, const Tensor& boxes, const MultiboxOptions& options) {
  return multibox_loss({outputs.at(0), outputs.at(1)}, anchors_, boxes, options).total;
}

std::vector<std::vector<FoundBox>> Ssd::decode(const TensorList& outputs, const SuppressionOptions& options) {
  return find_boxes({outputs.at(0), outputs.at(1)}, anchors_, options);
}

Index Ssd::loss_terms(const Tensor& boxes, const MultiboxOptions& options) const {
  const NoGrad no_grad;
  // Uses anchors on the host, which have the same bits; the model's may be on a device.
  const Tensor labels = match_boxes(fixed_anchors(), boxes, options.match()).label;
  const std::span<const std::int32_t> all(labels.data<std::int32_t>(),
                                          static_cast<std::size_t>(labels.numel()));
  return std::ranges::count_if(all, [](std::int32_t label) { return label > 0; });
}

nn::Forward Ssd::graph() {
  return [this](const Tensor& images) { return decoded(images); };
}

TensorList Ssd::decoded(const Tensor& images) {
  const AnchorOutput output = (*this)(images);
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
