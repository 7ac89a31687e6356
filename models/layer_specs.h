// Layers of a model as listed in JSON, with their inputs resolved and checked before any is made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/layer_types.h"
#include "nn/layers/graph.h"

namespace tandem::models {

// A layer, or an input of the model as numbered by nn::Graph, and the number of the layer's output.
struct LayerSource {
  int layer;
  int output = nn::Graph::Source::kOnly;
  friend bool operator==(const LayerSource&, const LayerSource&) = default;
};

struct LayerSpec {
  std::string path;
  std::string type_name;
  const LayerType* type = nullptr;  // nullptr: "sequential"
  const nlohmann::json* object = nullptr;
  std::string name;  // given, or the index
  std::optional<std::vector<std::string>> input_names;
  std::vector<LayerSource> inputs;

  bool has_several_outputs() const { return type && type->several_outputs; }
};

// Named results of a list of layers.
using LayerOutputs = std::vector<std::pair<std::string, LayerSource>>;

struct LayerList {
  std::vector<LayerSpec> specs;
  LayerOutputs outputs;
  bool named_outputs = false;  // by "outputs"; else there is one
  std::vector<int> order;      // topological order; the list's own if possible
};

// The "layers" of `object`, which must outlive the result, over the given inputs; the first is also called
// "input". Throws OptionError for unknown layers, repeated names, cycles and unused layers.
LayerList layers_of(const nlohmann::json& object, const std::vector<std::string>& inputs,
                    const std::string& path);

}  // namespace tandem::models
