#include "models/vit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/published_files.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kVit = "vit";

// Below "encoder.layers.encoder_layer_i".
nn::BlockNames encoder_layer_names() {
  return {
      .norm1 = "ln_1", .attention = "self_attention", .norm2 = "ln_2", .inner = "mlp.0", .outer = "mlp.3"};
}

// The largest patch up to the given one that tiles the image.
Index tiling_patch(const VitOptions& options) {
  const Index common = std::gcd(options.image[0], options.image[1]);
  Index patch = std::min(options.patch, common);
  while (common % patch != 0) --patch;
  return patch;
}

void check_sizes(const VitOptions& options) {
  const auto& [height, width] = options.image;
  require(options.in_channels > 0 && options.num_classes > 0 && height > 0 && width > 0 &&
              options.patch > 0 && options.layers > 0 && options.width > 0,
          kVit,
          "channels, classes, image, patch, layers and width must be positive, got {}, {}, {}×{}, {}, {} and "
          "{}",
          options.in_channels, options.num_classes, height, width, options.patch, options.layers,
          options.width);
  require(height % options.patch == 0 && width % options.patch == 0, kVit,
          "patches of {}×{} pixels do not tile images of {}×{}; use a patch of {}, or resize the images",
          options.patch, options.patch, height, width, tiling_patch(options));
}

}  // namespace

Vit::Vit(const VitOptions& options) : options_(options) {
  check_sizes(options);
  const Index width = options.width, patch = options.patch;
  class_token_ = add_parameter("class_token", nn::constant_parameter({1, 1, width}, 0.0));
  conv_proj_ = add_child(
      "conv_proj",
      std::make_shared<nn::Conv2d>(options.in_channels, width, patch,
                                   nn::ConvOptions{.stride = {patch, patch}, .init = nn::WeightInit::zeros}));
  const Tensor filters = conv_proj_->weight().value();
  const auto fan_in = static_cast<double>(nn::fans_of(filters.shape()).in);
  nn::init::truncated_normal(filters, 0.0, 1.0 / std::sqrt(fan_in));

  const Index patches = (options.image[0] / patch) * (options.image[1] / patch);
  const Tensor positions = nn::parameter_memory({1, patches + 1, width});
  nn::init::normal(positions, 0.0, 0.02);
  positions_ = add_parameter_at("encoder.pos_embedding", Parameter(positions));

  const nn::TransformerBlockOptions of_layers{.width = width,
                                              .heads = options.heads,
                                              .inner = options.inner,
                                              .activation = nn::BlockActivation::gelu,
                                              .eps = options.eps,
                                              .attention_dropout = options.attention_dropout,
                                              .dropout = options.dropout,
                                              .inner_dropout = options.dropout,
                                              .recompute = options.recompute};
  for (Index i = 0; i < options.layers; ++i)
    layers_.push_back(add_child_at(fmt::format("encoder.layers.encoder_layer_{}", i),
                                   std::make_shared<nn::TransformerBlock>(of_layers, encoder_layer_names())));
  ln_ = add_child_at("encoder.ln", nn::make_norm(nn::BlockNorm::layer, width, options.eps));
  head_ = add_child_at("heads.head",
                       std::make_shared<nn::Linear>(width, options.num_classes,
                                                    nn::LinearOptions{.init = nn::WeightInit::zeros}));
  for (const Parameter& parameter : parameters()) {
    if (parameter.name().find(".mlp.") == std::string::npos) continue;
    if (parameter.name().ends_with("weight")) {
      nn::init::xavier_uniform(parameter.value());
    } else {
      nn::init::normal(parameter.value(), 0.0, 1e-6);
    }
  }
}

// Class token and patches with their positions, [N,T+1,C].
Tensor Vit::tokens(const Tensor& images) {
  const Index patches = positions_.value().size(1) - 1;
  const Tensor of_patches = reshape((*conv_proj_)(images), {images.size(0), patches, options_.width});
  // A row of zeros precedes the patches; the class token is added there, with the positions.
  const Tensor added = positions_.tensor() + pad(class_token_.tensor(), {0, 0, 0}, {0, patches, 0});
  return dropout(pad(of_patches, {0, 1, 0}, {0, 0, 0}) + added, options_.dropout, training());
}

Tensor Vit::forward(const Tensor& images) {
  const Shape sample{options_.image[0], options_.image[1], options_.in_channels};
  require(images.rank() == 4 && images.shape() == sample.inserted(0, images.size(0)), kVit,
          "expects images [N,{},{},{}], got {}", sample[0], sample[1], sample[2], to_string(images));
  const Tensor x = tokens(images);
  nn::Residual stream{cast(x, wide_of(x.dtype()))};
  for (const auto& layer : layers_) stream = (*layer)(stream);
  const auto class_token = [&](const Tensor& all) {
    return reshape(slice(all, 1, 0, 1), {images.size(0), options_.width});
  };
  stream = {class_token(stream.x), class_token(stream.branch)};
  return (*head_)(nn::normed(*ln_, stream, {options_.dropout, training()}).normed);
}

std::string Vit::describe() const {
  return fmt::format("Vit({}×{} patches of {}×{}×{}, {} layers of {} features → {} classes)", options_.patch,
                     options_.patch, options_.image[0], options_.image[1], options_.in_channels,
                     options_.layers, options_.width, options_.num_classes);
}

ForeignNames Vit::foreign_names(const safetensors::File& file) const { return vit_names(file); }

}  // namespace tandem::models
