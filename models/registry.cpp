#include "models/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "models/dcgan.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/registry_keys.h"
#include "models/resnet_words.h"
#include "models/unet.h"
#include "models/vit.h"

namespace tandem::models {

namespace {

using options::Describe;
using options::Rule;

struct ResNetKeys : Keys<ResNetOptions> {
  std::optional<Index> first_width;
};

ModelInfo resnet_info(int depth, bool cifar) {
  const bool bottleneck = !cifar && depth >= 50;
  std::string help = cifar ? "residual network of the CIFAR family: 3 stages of basic blocks"
                           : std::string("residual network of the ImageNet family: 4 stages of ") +
                                 (bottleneck ? "bottlenecks" : "basic blocks");
  Rule width = size_rule(), stem;
  width.fallback = Index{cifar ? 16 : 64};
  stem.fallback = cifar ? "cifar" : "imagenet";
  Describe<ResNetKeys> keys;
  add_classes(add_channels(keys))
      .key("width", &ResNetKeys::first_width, "channels of the first stage", width)
      .key("zero_init_residual", of<ResNetKeys>(&ResNetOptions::zero_init_residual),
           "blocks start as the identity (zero-initialised last batch norm)")
      .key("shortcut", of<ResNetKeys>(&ResNetOptions::shortcut), "shortcut between stages")
      .key("stem", of<ResNetKeys>(&ResNetOptions::stem),
           "first layers: 7×7 and pooling, or 3×3 for small images", stem);
  return model("resnet" + std::to_string(depth), std::move(help), keys,
               [depth](const ResNetKeys& o, const DataInfo& data) -> nn::ModulePtr {
                 ResNetOptions options = o;
                 options.in_channels = channels_of(o.given_channels, data, options.in_channels);
                 options.num_classes = classes_of(o.given_classes, data, options.num_classes);
                 options.width = o.first_width.value_or(options.width);
                 return resnet(depth, options);
               });
}

ModelInfo mlp_info() {
  using MlpKeys = Keys<MlpOptions>;
  Describe<MlpKeys> keys;
  keys.key("in_features", of<MlpKeys>(&MlpKeys::given_features),
           "elements of a sample; inferred from the data", size_rule())
      .key("hidden", of<MlpKeys>(&MlpOptions::hidden), "widths of the hidden layers", size_rule());
  add_classes(keys)
      .key("activation", of<MlpKeys>(&MlpOptions::activation), "activation after each hidden layer",
           {.choices = activation_names()})
      .key("batch_norm", of<MlpKeys>(&MlpOptions::batch_norm), "batch norm before each activation")
      .key("dropout", of<MlpKeys>(&MlpOptions::dropout), "dropout probability after each activation",
           probability_rule());
  return model("mlp", "fully connected network", keys,
               [](const MlpKeys& o, const DataInfo& data) -> nn::ModulePtr {
                 MlpOptions options = o;
                 const Index features = data.sample.rank() > 0 ? data.sample.numel() : 0;
                 options.in_features =
                     known_or("in_features", o.given_features, features, options.in_features, "a sample has");
                 options.num_classes = classes_of(o.given_classes, data, options.num_classes);
                 return mlp(options);
               });
}

enum class LeNetPool : std::uint8_t { max, average };

struct LeNetKeys : Keys<LeNetOptions> {
  LeNetPool pool = LeNetOptions{}.average_pool ? LeNetPool::average : LeNetPool::max;
};

nn::ModulePtr make_lenet(const LeNetKeys& keys, const DataInfo& data) {
  const bool image = data.sample.rank() == 3;
  LeNetOptions options = keys;
  options.in_channels = channels_of(keys.given_channels, data, options.in_channels);
  options.num_classes = classes_of(keys.given_classes, data, options.num_classes);
  options.height =
      known_or("height", keys.given_height, image ? data.sample[0] : 0, options.height, "the images have");
  options.width =
      known_or("width", keys.given_width, image ? data.sample[1] : 0, options.width, "the images have");
  options.average_pool = keys.pool == LeNetPool::average;
  return lenet5(options);
}

}  // namespace
}  // namespace tandem::models

template <>
struct tandem::options::EnumNames<tandem::models::LeNetPool> {
  static constexpr std::array values{"max", "average"};
};

namespace tandem::models {

namespace {

ModelInfo lenet_info() {
  Describe<LeNetKeys> keys;
  add_classes(add_channels(keys))
      .key("height", of<LeNetKeys>(&LeNetKeys::given_height), "rows of an image; inferred from the data",
           size_rule())
      .key("width", of<LeNetKeys>(&LeNetKeys::given_width), "columns of an image; inferred from the data",
           size_rule())
      .key("activation", of<LeNetKeys>(&LeNetOptions::activation), "activation; the original's was tanh",
           {.choices = activation_names()})
      .key("pool", &LeNetKeys::pool, "pooling; the original's was average");
  return model("lenet5", "LeNet-5: two 5×5 convolutions, three fully connected layers", keys, make_lenet);
}

struct DcganKeys : DcganOptions {
  std::optional<Index> given_channels, given_side;
};

ModelInfo dcgan_info() {
  Describe<DcganKeys> keys;
  add_channels(keys)
      .key("image_size", of<DcganKeys>(&DcganKeys::given_side),
           "side of the images, 8, 16, 32, …; default: the smallest that fits the data", size_rule())
      .key("noise", of<DcganKeys>(&DcganOptions::noise), "size of the latent vector", size_rule())
      .key("width", of<DcganKeys>(&DcganOptions::width),
           "channels at half the image's side, doubled at each halving", size_rule());
  return model("dcgan", "DCGAN: a generator and a discriminator of strided convolutions, for the task gan",
               keys, [](const DcganKeys& o, const DataInfo& data) {
                 const bool image = data.sample.rank() == 3;
                 require(!image || data.sample[0] == data.sample[1], "dcgan",
                         "images of {}×{} are not square; resize in data.augment makes them so",
                         data.sample[0], data.sample[1]);
                 DcganOptions options = o;
                 options.image_size =
                     known_or("image_size", o.given_side, image ? dcgan_size_for(data.sample[0]) : 0,
                              options.image_size, "the images are brought to");
                 options.channels = channels_of(o.given_channels, data, options.channels);
                 return std::make_shared<Dcgan>(options);
               });
}

ModelInfo unet_info() {
  using UNetKeys = Keys<UNetOptions>;
  Describe<UNetKeys> keys;
  add_classes(add_channels(keys))
      .key("width", of<UNetKeys>(&UNetOptions::width), "channels at full size, doubled at each level",
           size_rule())
      .key("levels", of<UNetKeys>(&UNetOptions::levels),
           "number of halvings of the image; its sides must be multiples of 2^levels", {.min = 1, .max = 10});
  ModelInfo info =
      model("unet", "U-Net: class scores for every pixel from an encoder–decoder with skip connections", keys,
            [](const UNetKeys& o, const DataInfo& data) -> nn::ModulePtr {
              UNetOptions options = o;
              options.in_channels = channels_of(o.given_channels, data, options.in_channels);
              options.num_classes = classes_of(o.given_classes, data, options.num_classes);
              return std::make_shared<UNet>(options);
            });
  info.kind = ModelKind::segmenter;
  return info;
}

ModelInfo vit_info() {
  using VitKeys = Keys<VitOptions>;
  Describe<VitKeys> keys;
  add_classes(add_channels(keys))
      .key("patch", of<VitKeys>(&VitOptions::patch),
           "side of the square patches, in pixels; a divisor of the image's height and width", size_rule())
      .key("num_layers", of<VitKeys>(&VitOptions::layers), "number of Transformer blocks",
           {.min = 1, .max = 1024})
      .key("width", of<VitKeys>(&VitOptions::width), "features of a token", size_rule())
      .key("heads", of<VitKeys>(&VitOptions::heads), "attention heads; a divisor of width", size_rule())
      .key("inner", of<VitKeys>(&VitOptions::inner), "width of the perceptron of a block; 0: 4 · width",
           {.min = 0, .max = kMaxExtent})
      .key("dropout", of<VitKeys>(&VitOptions::dropout),
           "dropout probability of tokens, of each branch before it is added, and after GELU",
           probability_rule())
      .key("attention_dropout", of<VitKeys>(&VitOptions::attention_dropout),
           "dropout probability of attention weights", probability_rule());
  add_recompute(keys);
  return model("vit", "Vision Transformer: an encoder of the patches of an image, as torchvision's", keys,
               [](const VitKeys& o, const DataInfo& data) {
                 VitOptions options = o;
                 options.in_channels = channels_of(o.given_channels, data, options.in_channels);
                 options.num_classes = classes_of(o.given_classes, data, options.num_classes);
                 if (data.sample.rank() == 3) options.image = {data.sample[0], data.sample[1]};
                 return std::make_shared<Vit>(options);
               });
}

std::vector<ModelInfo> image_models() {
  std::vector<ModelInfo> all{mlp_info(), lenet_info()};
  for (int depth : {18, 34, 50, 101, 152}) all.push_back(resnet_info(depth, false));
  for (int depth : {8, 20, 32, 44, 56, 110}) all.push_back(resnet_info(depth, true));
  all.push_back(vit_info());
  all.push_back(unet_info());
  all.push_back(dcgan_info());
  return all;
}

}  // namespace

options::Entries<ModelInfo>& registry() {
  static options::Entries<ModelInfo> models("model", {image_models, detector_models, sequence_models});
  return models;
}

std::string_view name_of(ModelKind kind) {
  static constexpr std::array names{"classifier",
                                    "segmenter",
                                    "detector",
                                    "language model",
                                    "text classifier",
                                    "masked language model",
                                    "question-answering model",
                                    "encoder–decoder",
                                    "GAN"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string not_of_kind(ModelKind wanted) {
  std::vector<std::string> names;
  for (const ModelInfo& model : registry().entries())
    if (model.kind == wanted || (model.kind > ModelKind::segmenter && serves_as(model.kind, wanted)))
      names.push_back(model.name);
  return fmt::format("is no {}; use {}", name_of(wanted), fmt::join(names, ", "));
}

nn::ModulePtr create(const std::string& name, const options::Given& options, const DataInfo& data,
                     const std::string& path) {
  const ModelInfo* model = registry().find(name);
  if (!model)
    throw OptionError(path + ".name",
                      fmt::format("there is no model \"{}\"{}", name, suggestion(name, registry().names())));
  return at_place(path, [&] { return model->make(record_of(*model, options).data(), data); });
}

}  // namespace tandem::models
