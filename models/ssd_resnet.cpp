#include "core/error.h"
#include "models/ssd_bodies.h"
#include "nn/layers/activation.h"

namespace tandem::models {

// The first three stages, the third without halving.
class ResNetDetectorBody::Trunk final : public ResNetBody {
 public:
  explicit Trunk(ResNetLayout layout) : ResNetBody(first_three(layout), {}, {1, 2, 1}) {}
  Tensor forward(const Tensor& x) override { return features(x); }
  Index channels() const { return out_channels(); }

 private:
  static const ResNetLayout& first_three(ResNetLayout& layout) {
    layout.blocks.resize(3);
    return layout;
  }
};

namespace {

// Children "0", "1", "3", "4": convolutions and norms; a separate ReLU only without norm.
std::shared_ptr<nn::Sequential> additional_block(Index in, const ExtraLayer& layer, bool norm) {
  auto block = std::make_shared<nn::Sequential>();
  const auto add = [&](int place, Index from, Index to, Index kernel, Index stride, Index padding) {
    const nn::ConvOptions options{.stride = {stride, stride},
                                  .padding = {padding, padding},
                                  .bias = !norm,
                                  .init = nn::WeightInit::xavier_uniform};
    block->add(std::to_string(place), std::make_shared<nn::Conv2d>(from, to, kernel, options));
    if (norm) {
      block->add(std::to_string(place + 1),
                 std::make_shared<nn::BatchNorm>(to, nn::BatchNormLayerOptions{.relu = true}));
    } else {
      block->add(std::to_string(place + 1), std::make_shared<nn::Relu>());
    }
  };
  add(0, in, layer.inner, 1, 1, 0);
  add(norm ? 3 : 2, layer.inner, layer.out, layer.kernel, layer.stride, layer.padding);
  return block;
}

}  // namespace

ResNetDetectorBody::ResNetDetectorBody(int depth, bool norm) : depth_(depth) {
  require(depth == 18 || depth == 34 || depth == 50, "ssd",
          "residual bodies have a depth of 18, 34 or 50, got {}", depth);
  trunk_ = add_child("feature_extractor", std::make_shared<Trunk>(resnet_layout(depth)));
  channels_.push_back(trunk_->channels());
  const Index last = depth == 18 ? 128 : 256;
  const auto list = add_child("additional_blocks", std::make_shared<nn::Sequential>());
  for (const ExtraLayer& layer :
       {ExtraLayer{256, 512, 2, 1}, ExtraLayer{256, 512, 2, 1}, ExtraLayer{128, 256, 2, 1},
        ExtraLayer{128, 256, 1, 0}, ExtraLayer{128, last, 1, 0}}) {
    additional_blocks_.push_back(additional_block(channels_.back(), layer, norm));
    list->add(additional_blocks_.back());
    channels_.push_back(layer.out);
  }
}

ForeignNames ResNetDetectorBody::classifier_names(const safetensors::File& file) const {
  if (!file.find("conv1.weight")) return {};
  return under({{"", "feature_extractor."}});
}

TensorList ResNetDetectorBody::maps(const Tensor& images) {
  TensorList maps{(*trunk_)(images)};
  for (const auto& block : additional_blocks_) maps.push_back((*block)(maps.back()));
  return maps;
}

std::string ResNetDetectorBody::describe() const { return fmt::format("ResNetDetectorBody({})", depth_); }

}  // namespace tandem::models
