// The layers of a model as its JSON lists them: what each takes, checked, before any is made.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/layer_types.h"
#include "nn/layers/graph.h"

namespace tandem::models {

// A layer, or an input of the model as nn::Graph counts them, and which of the layer's outputs.
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
  std::string name;  // as given or the index
  std::optional<std::vector<std::string>> input_names;
  std::vector<LayerSource> inputs;

  bool has_several_outputs() const { return type && type->several_outputs; }
};

// What a list of layers gives, by name.
using LayerOutputs = std::vector<std::pair<std::string, LayerSource>>;

struct LayerList {
  std::vector<LayerSpec> specs;
  LayerOutputs outputs;
  bool named_outputs = false;  // by "outputs"; else there is one
  std::vector<int> order;  // of running: every layer after what it takes, the list's own where that is free
};

// The "layers" of `object`, which must outlive the result, over the given inputs, of which the first is
// "input", too. Throws OptionError for layers that do not exist, are named twice, form a cycle or lead
// nowhere.
LayerList layers_of(const nlohmann::json& object, const std::vector<std::string>& inputs,
                    const std::string& path);

}  // namespace tandem::models
