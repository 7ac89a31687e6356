#include "models/registry.h"

#include <algorithm>

#include "models/dcgan.h"
#include "models/layer_types.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/unet.h"

namespace tandem::models {

namespace {

using Type = OptionType;

OptionInfo count_option(std::string name, std::string help, std::optional<OptionValue> fallback = {}) {
  return {.name = std::move(name),
          .type = Type::integer,
          .help = std::move(help),
          .fallback = std::move(fallback),
          .required = false,
          .low = 1,
          .high = kMaxExtent};
}

OptionInfo flag(std::string name, std::string help) {
  return {.name = std::move(name), .type = Type::boolean, .help = std::move(help), .fallback = false};
}

OptionInfo in_channels_option() {
  return count_option("in_channels", "channels of the images; found from the data");
}
OptionInfo num_classes_option() {
  return count_option("num_classes", "scores of the result; found from the data");
}

Index in_channels_of(const Options& options, const DataInfo& data, Index fallback) {
  const Index actual = data.sample.rank() > 0 ? data.sample.at(-1) : 0;
  return options.integer_or_known("in_channels", actual, fallback, "the data has");
}

// More scores than classes are allowed: a head kept from other data.
Index num_classes_of(const Options& options, const DataInfo& data, Index fallback) {
  if (!options.has("num_classes")) return data.classes > 0 ? data.classes : fallback;
  const Index given = options.integer("num_classes");
  if (given < data.classes)
    options.fail("num_classes", fmt::format("{} is given, but the data has {} classes", given, data.classes));
  return given;
}

ModelInfo resnet_info(int depth, bool cifar) {
  const auto make = [depth, cifar](const Options& options, const DataInfo& data) -> nn::ModulePtr {
    ResNetOptions resnet_options{
        .in_channels = in_channels_of(options, data, 3),
        .num_classes = num_classes_of(options, data, cifar ? 10 : 1000),
        .width = options.has("width") ? options.integer("width") : 0,
        .zero_init_residual = options.boolean("zero_init_residual"),
        .shortcut =
            options.text("shortcut") == "padding" ? ResNetShortcut::padding : ResNetShortcut::projection,
        .stem = options.text("stem") == "cifar" ? ResNetStem::cifar : ResNetStem::imagenet};
    return resnet(depth, resnet_options);
  };
  const bool bottleneck = !cifar && depth >= 50;
  std::string help = cifar ? "residual network of the CIFAR family: 3 stages of basic blocks"
                           : std::string("residual network of the ImageNet family: 4 stages of ") +
                                 (bottleneck ? "bottlenecks" : "basic blocks");
  OptionInfo shortcut =
      choice("shortcut", "how shapes are matched between stages", "projection", {"projection", "padding"});
  return {"resnet" + std::to_string(depth),
          std::move(help),
          {in_channels_option(), num_classes_option(),
           count_option("width", "channels of the first stage", Index{cifar ? 16 : 64}),
           flag("zero_init_residual", "blocks start as the identity"), std::move(shortcut),
           choice("stem", "first layers: 7×7 and pooling, or 3×3 for small images",
                  cifar ? "cifar" : "imagenet", {"imagenet", "cifar"})},
          make};
}

nn::ModulePtr make_mlp(const Options& options, const DataInfo& data) {
  const Index features = data.sample.rank() > 0 ? data.sample.numel() : 0;
  return mlp({.in_features = options.integer_or_known("in_features", features, 784, "a sample has"),
              .hidden = options.integers("hidden"),
              .num_classes = num_classes_of(options, data, 10),
              .activation = options.text("activation"),
              .batch_norm = options.boolean("batch_norm"),
              .dropout = options.real("dropout")});
}

ModelInfo mlp_info() {
  return {"mlp",
          "fully connected network",
          {count_option("in_features", "elements of a sample; found from the data"),
           {.name = "hidden",
            .type = Type::integers,
            .help = "widths of the hidden layers",
            .fallback = std::vector<Index>{128},
            .required = false,
            .low = 1,
            .high = kMaxExtent},
           num_classes_option(),
           choice("activation", "after each hidden layer", "relu", activation_names()),
           flag("batch_norm", "normalises before each activation"),
           {.name = "dropout",
            .type = Type::real,
            .help = "probability of a zero after each activation",
            .fallback = 0.0,
            .required = false,
            .low = 0.0,
            .high = 0.999999}},
          make_mlp};
}

nn::ModulePtr make_lenet(const Options& options, const DataInfo& data) {
  const bool image = data.sample.rank() == 3;
  return lenet5(
      {.in_channels = in_channels_of(options, data, 1),
       .num_classes = num_classes_of(options, data, 10),
       .height = options.integer_or_known("height", image ? data.sample[0] : 0, 28, "the images have"),
       .width = options.integer_or_known("width", image ? data.sample[1] : 0, 28, "the images have"),
       .activation = options.text("activation"),
       .average_pool = options.text("pool") == "average"});
}

ModelInfo lenet_info() {
  return {"lenet5",
          "LeNet-5: two 5×5 convolutions, three fully connected layers",
          {in_channels_option(), num_classes_option(),
           count_option("height", "rows of an image; found from the data"),
           count_option("width", "columns of an image; found from the data"),
           choice("activation", "the original's was tanh", "relu", activation_names()),
           choice("pool", "the original's was average", "max", {"max", "average"})},
          make_lenet};
}

nn::ModulePtr make_dcgan(const Options& options, const DataInfo& data) {
  const bool image = data.sample.rank() == 3;
  require(!image || data.sample[0] == data.sample[1], "dcgan", "images of {}×{} are not square",
          data.sample[0], data.sample[1]);
  return std::make_shared<Dcgan>(DcganOptions{
      .image_size = options.integer_or_known("image_size", image ? data.sample[0] : 0, 32, "the images have"),
      .channels = in_channels_of(options, data, 1),
      .noise = options.integer("noise"),
      .width = options.integer("width")});
}

ModelInfo dcgan_info() {
  return {
      "dcgan",
      "DCGAN: a generator and a discriminator of strided convolutions, for the task gan",
      {in_channels_option(),
       count_option("image_size", "side of the images, 8, 16, 32, …; found from the data"),
       count_option("noise", "random numbers that an image is made from", Index{100}),
       count_option("width", "channels at half the image's side, doubled each time it halves", Index{32})},
      make_dcgan,
      /*in_parts=*/true};
}

nn::ModulePtr make_unet(const Options& options, const DataInfo& data) {
  return std::make_shared<UNet>(UNetOptions{.in_channels = in_channels_of(options, data, 3),
                                            .num_classes = num_classes_of(options, data, 2),
                                            .width = options.integer("width"),
                                            .levels = options.integer("levels")});
}

ModelInfo unet_info() {
  return {"unet",
          "U-Net: scores for every pixel, from an image that is halved and brought back level by level",
          {in_channels_option(),
           num_classes_option(),
           count_option("width", "channels at full size, doubled by each level", Index{64}),
           {.name = "levels",
            .type = Type::integer,
            .help = "how often the image is halved; its sides must be multiples of 2^levels",
            .fallback = Index{4},
            .required = false,
            .low = 1,
            .high = 10}},
          make_unet};
}

}  // namespace

const std::vector<ModelInfo>& registry() {
  static const std::vector<ModelInfo> models = [] {
    std::vector<ModelInfo> all{mlp_info(), lenet_info()};
    for (int depth : {18, 34, 50, 101, 152}) all.push_back(resnet_info(depth, false));
    for (int depth : {8, 20, 32, 44, 56, 110}) all.push_back(resnet_info(depth, true));
    all.push_back(unet_info());
    all.push_back(dcgan_info());
    return all;
  }();
  return models;
}

const ModelInfo* find_model(std::string_view name) {
  const auto found = std::ranges::find(registry(), name, &ModelInfo::name);
  return found == registry().end() ? nullptr : &*found;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : registry()) names.push_back(model.name);
  return names;
}

nn::ModulePtr create(const std::string& name, const OptionMap& options, const DataInfo& data,
                     const std::string& path) {
  const ModelInfo* model = find_model(name);
  if (!model)
    throw OptionError(path + ".name",
                      fmt::format("there is no model \"{}\"{}", name, suggestion(name, model_names())));
  return model->make(Options(path, model->options, options), data);
}

}  // namespace tandem::models
