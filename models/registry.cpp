#include "models/registry.h"

#include <algorithm>

#include "models/dcgan.h"
#include "models/language_model.h"
#include "models/layer_types.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet_words.h"
#include "models/text_classifier.h"
#include "models/unet.h"

namespace tandem::models {

namespace {

using options::Describe;
using options::Rule;

// What follows from the data unless it is given; beside it what else a model is told.
template <class Of>
struct Keys : Of {
  std::optional<Index> given_channels, given_classes, given_features, given_height, given_width;
};

template <class Keys>
Describe<Keys>& add_channels(Describe<Keys>& keys) {
  return keys.key("in_channels", of<Keys>(&Keys::given_channels),
                  "channels of the images; found from the data", size_rule());
}
template <class Keys>
Describe<Keys>& add_classes(Describe<Keys>& keys) {
  return keys.key("num_classes", of<Keys>(&Keys::given_classes), "scores of the result; found from the data",
                  size_rule());
}

Index channels_of(std::optional<Index> given, const DataInfo& data, Index fallback) {
  const Index actual = data.sample.rank() > 0 ? data.sample.at(-1) : 0;
  return known_or("in_channels", given, actual, fallback, "the data has");
}

// More scores than classes are allowed: a head kept from other data.
Index classes_of(std::optional<Index> given, const DataInfo& data, Index fallback) {
  if (!given) return data.classes > 0 ? data.classes : fallback;
  if (*given < data.classes)
    throw OptionError("num_classes",
                      fmt::format("{} is given, but the data has {} classes", *given, data.classes));
  return *given;
}

// `make` takes a T and what is known of the data.
template <class T, class Make>
ModelInfo model(std::string name, std::string help, Describe<T> keys, Make make) {
  return {{std::move(name), std::move(help), keys},
          [make = std::move(make)](const void* options, const DataInfo& data) -> nn::ModulePtr {
            return make(*static_cast<const T*>(options), data);
          }};
}

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
           "blocks start as the identity")
      .key("shortcut", of<ResNetKeys>(&ResNetOptions::shortcut), "how shapes are matched between stages")
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
  keys.key("in_features", of<MlpKeys>(&MlpKeys::given_features), "elements of a sample; found from the data",
           size_rule())
      .key("hidden", of<MlpKeys>(&MlpOptions::hidden), "widths of the hidden layers", size_rule());
  add_classes(keys)
      .key("activation", of<MlpKeys>(&MlpOptions::activation), "after each hidden layer",
           {.choices = activation_names()})
      .key("batch_norm", of<MlpKeys>(&MlpOptions::batch_norm), "normalises before each activation")
      .key("dropout", of<MlpKeys>(&MlpOptions::dropout), "probability of a zero after each activation",
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
struct tandem::options::Words<tandem::RnnCell> {
  static constexpr std::array values{"lstm", "gru", "rnn_tanh", "rnn_relu"};
};
template <>
struct tandem::options::Words<tandem::models::TextPooling> {
  static constexpr std::array values{"mean", "last"};
};
template <>
struct tandem::options::Words<tandem::models::LeNetPool> {
  static constexpr std::array values{"max", "average"};
};

namespace tandem::models {

namespace {

ModelInfo lenet_info() {
  Describe<LeNetKeys> keys;
  add_classes(add_channels(keys))
      .key("height", of<LeNetKeys>(&LeNetKeys::given_height), "rows of an image; found from the data",
           size_rule())
      .key("width", of<LeNetKeys>(&LeNetKeys::given_width), "columns of an image; found from the data",
           size_rule())
      .key("activation", of<LeNetKeys>(&LeNetOptions::activation), "the original's was tanh",
           {.choices = activation_names()})
      .key("pool", &LeNetKeys::pool, "the original's was average");
  return model("lenet5", "LeNet-5: two 5×5 convolutions, three fully connected layers", keys, make_lenet);
}

struct DcganKeys : DcganOptions {
  std::optional<Index> given_channels, given_side;
};

ModelInfo dcgan_info() {
  Describe<DcganKeys> keys;
  add_channels(keys)
      .key("image_size", of<DcganKeys>(&DcganKeys::given_side),
           "side of the images, 8, 16, 32, …; found from the data", size_rule())
      .key("noise", of<DcganKeys>(&DcganOptions::noise), "random numbers that an image is made from",
           size_rule())
      .key("width", of<DcganKeys>(&DcganOptions::width),
           "channels at half the image's side, doubled each time it halves", size_rule());
  ModelInfo info =
      model("dcgan", "DCGAN: a generator and a discriminator of strided convolutions, for the task gan", keys,
            [](const DcganKeys& o, const DataInfo& data) -> nn::ModulePtr {
              const bool image = data.sample.rank() == 3;
              require(!image || data.sample[0] == data.sample[1], "dcgan", "images of {}×{} are not square",
                      data.sample[0], data.sample[1]);
              DcganOptions options = o;
              options.image_size = known_or("image_size", o.given_side, image ? data.sample[0] : 0,
                                            options.image_size, "the images have");
              options.channels = channels_of(o.given_channels, data, options.channels);
              return std::make_shared<Dcgan>(options);
            });
  info.in_parts = true;
  return info;
}

ModelInfo unet_info() {
  using UNetKeys = Keys<UNetOptions>;
  Describe<UNetKeys> keys;
  add_classes(add_channels(keys))
      .key("width", of<UNetKeys>(&UNetOptions::width), "channels at full size, doubled by each level",
           size_rule())
      .key("levels", of<UNetKeys>(&UNetOptions::levels),
           "how often the image is halved; its sides must be multiples of 2^levels", {.min = 1, .max = 10});
  return model("unet",
               "U-Net: scores for every pixel, from an image that is halved and brought back level by level",
               keys, [](const UNetKeys& o, const DataInfo& data) -> nn::ModulePtr {
                 UNetOptions options = o;
                 options.in_channels = channels_of(o.given_channels, data, options.in_channels);
                 options.num_classes = classes_of(o.given_classes, data, options.num_classes);
                 return std::make_shared<UNet>(options);
               });
}

struct LanguageModelKeys : LanguageModelOptions {
  std::optional<Index> given_vocabulary;
  options::Choice<word_softmaxes> given_softmax;
};

Rule dropout_rule() {
  Rule rule = probability_rule();
  rule.keyword = "auto";
  return rule;
}

ModelInfo language_model_info() {
  using Keys = LanguageModelKeys;
  Describe<Keys> keys;
  keys.key("vocabulary", &Keys::given_vocabulary, "words; found from the data", size_rule())
      .key("embedding", of<Keys>(&Keys::embedding), "numbers that stand for a word", size_rule())
      .key("units", of<Keys>(&Keys::units), "of each layer of cells", size_rule())
      .key("num_layers", of<Keys>(&Keys::layers), "of cells, one above the other", {.min = 1, .max = 64})
      .key("cell", of<Keys>(&Keys::cell), "what the layers are made of")
      .key("projection", of<Keys>(&Keys::projection), "outputs of a layer of lstm; 0: as many as units",
           {.min = 0, .max = kMaxExtent})
      .key("dropout", of<Keys>(&Keys::dropout),
           "probability of a zero in what goes into the cells, from layer to layer, and out",
           probability_rule())
      .key("tied", of<Keys>(&Keys::tied), "the output's weights are the table of the embedding")
      .key("init", of<Keys>(&Keys::init),
           "weights start uniform between -init and init, biases at 0; 0: as the layers do by themselves",
           {.min = 0.0})
      .key("recompute", of<Keys>(&Keys::recompute),
           "keep every 16th state for the backward pass and compute the gates anew: less memory, more work")
      .key("softmax", &Keys::given_softmax, "how the output gives probabilities of words")
      .key("last_units", of<Keys>(&Keys::last_units),
           "of the last layer, as tied weights want as many as the embedding has; 0: as many as units",
           {.min = 0, .max = kMaxExtent})
      .key("input_dropout", of<Keys>(&Keys::input_dropout),
           "probability of a zero in what goes into the cells; auto: dropout", dropout_rule())
      .key("output_dropout", of<Keys>(&Keys::output_dropout),
           "probability of a zero in what comes out of the cells; auto: dropout", dropout_rule())
      .key("locked_dropout", of<Keys>(&Keys::locked_dropout),
           "what is dropped is dropped at every step of a batch (variational dropout)")
      .key("word_dropout", of<Keys>(&Keys::word_dropout),
           "probability that a word of the vocabulary reads as zeros in all of a batch", probability_rule())
      .key("weight_dropout", of<Keys>(&Keys::weight_dropout),
           "probability of a zero in the weights of what recurs, the same at every step (DropConnect)",
           probability_rule());
  ModelInfo info = model("language_model", "recurrent language model, for the task language", keys,
                         [](const Keys& o, const DataInfo& data) -> nn::ModulePtr {
                           LanguageModelOptions options = o;
                           options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                                         options.vocabulary, "the text has");
                           options.softmax = word_softmaxes().make(o.given_softmax);
                           return std::make_shared<LanguageModel>(options);
                         });
  info.in_parts = true;
  return info;
}

struct TextClassifierKeys : Keys<TextClassifierOptions> {
  std::optional<Index> given_vocabulary;
};

ModelInfo text_classifier_info() {
  using Own = TextClassifierKeys;
  Describe<Own> keys;
  keys.key("vocabulary", &Own::given_vocabulary, "words; found from the data", size_rule());
  add_classes(keys)
      .key("embedding", of<Own>(&Own::embedding), "numbers that stand for a word", size_rule())
      .key("units", of<Own>(&Own::units), "of each layer of cells in one direction", size_rule())
      .key("num_layers", of<Own>(&Own::layers), "of cells, one above the other", {.min = 1, .max = 64})
      .key("cell", of<Own>(&Own::cell), "what the layers are made of")
      .key("bidirectional", of<Own>(&Own::bidirectional), "texts are read backwards, too")
      .key("pooling", of<Own>(&Own::pooling),
           "what stands for a text: the mean of the outputs over its words, or the states after the last one")
      .key("dropout", of<Own>(&Own::dropout),
           "probability of a zero in what goes into the cells, from layer to layer, and into the last layer",
           probability_rule())
      .key("init", of<Own>(&Own::init), "the table of words starts uniform between -init and init; 0: normal",
           {.min = 0.0})
      .key("recompute", of<Own>(&Own::recompute),
           "keep every 16th state for the backward pass and compute the gates anew: less memory, more work");
  return model("text_classifier", "recurrent classifier of texts, for the task text_classification", keys,
               [](const Own& o, const DataInfo& data) -> nn::ModulePtr {
                 TextClassifierOptions options = o;
                 options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                               options.vocabulary, "the texts have");
                 options.classes = classes_of(o.given_classes, data, options.classes);
                 return std::make_shared<TextClassifier>(options);
               });
}

}  // namespace

const std::vector<ModelInfo>& registry() {
  static const std::vector<ModelInfo> models = [] {
    std::vector<ModelInfo> all{mlp_info(), lenet_info()};
    for (int depth : {18, 34, 50, 101, 152}) all.push_back(resnet_info(depth, false));
    for (int depth : {8, 20, 32, 44, 56, 110}) all.push_back(resnet_info(depth, true));
    all.push_back(unet_info());
    all.push_back(dcgan_info());
    all.push_back(language_model_info());
    all.push_back(text_classifier_info());
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

nn::ModulePtr create(const std::string& name, const options::Given& options, const DataInfo& data,
                     const std::string& path) {
  const ModelInfo* model = find_model(name);
  if (!model)
    throw OptionError(path + ".name",
                      fmt::format("there is no model \"{}\"{}", name, suggestion(name, model_names())));
  return at_place(path, [&] { return model->make(record_of(*model, options).data(), data); });
}

}  // namespace tandem::models
