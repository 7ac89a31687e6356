// The layer types that a configuration names: their parameters, and how each is made from the shapes it gets.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/options.h"
#include "nn/module.h"

namespace tandem::models {

struct LayerType {
  std::string name;  // "conv2d"
  std::string help;
  std::vector<OptionInfo> options;
  // `inputs` are the shapes of the layer's inputs, batch first; what can be told from them need not be given.
  std::function<nn::ModulePtr(const Options& options, std::span<const Shape> inputs)> make;
  int min_inputs = 1, max_inputs = 1;
  bool several_outputs = false;  // which others take by number: "halves.0"
};

// Sorted as they are documented; names are unique.
const std::vector<LayerType>& layer_types();
// nullptr when there is none of that name.
const LayerType* find_layer_type(std::string_view name);
std::vector<std::string> layer_type_names();

// A layer type that needs no parameters, by name ("relu", "tanh", …). Throws UserError for another one.
nn::ModulePtr new_activation(const std::string& type);
// The types new_activation knows.
std::vector<std::string> activation_names();

}  // namespace tandem::models
