// Shared parts of registered models: options inferred from the data, and construction of an entry.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/layer_types.h"
#include "models/registry.h"
#include "nn/layers/transformer_block.h"

template <>
struct tandem::options::EnumNames<tandem::nn::Recompute> {
  static constexpr auto& values = tandem::nn::kRecomputeNames;
};

namespace tandem::models {

// Entries of models with registries of their own: detectors ("ssd_small", "ssd300_resnet18" to
// "ssd300_resnet50", "ssd300_vgg16", "ssd512_vgg16", "ssdlite320_mobilenet_v3") and sequence models
// ("language_model", "gpt", "text_classifier", "encoder_decoder", "transformer").
std::vector<ModelInfo> detector_models();
std::vector<ModelInfo> sequence_models();
ModelInfo bert_info();

// Options inferred from the data unless given.
template <class Of>
struct Keys : Of {
  std::optional<Index> given_channels, given_classes, given_features, given_height, given_width;
};

template <class Keys>
options::Describe<Keys>& add_channels(options::Describe<Keys>& keys) {
  return keys.key("in_channels", of<Keys>(&Keys::given_channels),
                  "channels of the images; inferred from the data", size_rule());
}
template <class Keys>
options::Describe<Keys>& add_classes(options::Describe<Keys>& keys) {
  return keys.key("num_classes", of<Keys>(&Keys::given_classes), "number of classes; inferred from the data",
                  size_rule());
}

// Keys of models with Transformer blocks.
template <class Keys>
options::Describe<Keys>& add_recompute(options::Describe<Keys>& keys) {
  return keys.key(
      "recompute", of<Keys>(&Keys::recompute),
      "activations that backward recomputes instead of storing them: those of the perceptrons (mlp), "
      "or all but the inputs of blocks (block); less memory, the same results");
}

inline Index channels_of(std::optional<Index> given, const DataInfo& data, Index fallback) {
  const Index actual = data.sample.rank() > 0 ? data.sample.at(-1) : 0;
  return known_or("in_channels", given, actual, fallback, "the data has");
}

// More scores than classes are allowed, e.g. a head kept from other data.
inline Index classes_of(std::optional<Index> given, const DataInfo& data, Index fallback) {
  if (!given) return data.classes > 0 ? data.classes : fallback;
  if (*given < data.classes)
    throw OptionError("num_classes",
                      fmt::format("{} is given, but the data has {} classes", *given, data.classes));
  return *given;
}

// `make` takes a T and the DataInfo, and returns a shared_ptr to the model; the interface of its class
// determines the model's kind.
template <class T, class Make>
ModelInfo model(std::string name, std::string help, options::Describe<T> keys, Make make) {
  using Made = typename std::invoke_result_t<Make&, const T&, const DataInfo&>::element_type;
  ModelInfo info{{std::move(name), std::move(help), keys},
                 [make = std::move(make)](const void* options, const DataInfo& data) -> nn::ModulePtr {
                   return make(*static_cast<const T*>(options), data);
                 }};
  if constexpr (requires { Made::kind; }) info.kind = Made::kind;
  return info;
}

}  // namespace tandem::models
