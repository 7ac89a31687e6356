// The layer types that a configuration names: their options, and how each is made from the shapes it gets.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/options.h"
#include "nn/module.h"

namespace tandem::models {

struct LayerType : options::Variant {
  // `options` are those of its schema (record_of). `inputs` are the shapes of the layer's inputs, batch
  // first; what can be told from them need not be given. Throws OptionError with the option's path.
  std::function<nn::ModulePtr(const void* options, std::span<const Shape> inputs)> make;
  int min_inputs = 1, max_inputs = 1;
  bool several_outputs = false;  // which others take by number: "halves.0"
};

// Sorted as they are documented; names are unique.
const std::vector<LayerType>& layer_types();
// nullptr when there is none of that name.
const LayerType* find_layer_type(std::string_view name);
std::vector<std::string> layer_type_names();

// A layer type that needs no options, by name ("relu", "tanh", …). Throws UserError for another one.
nn::ModulePtr new_activation(const std::string& type);
// The types new_activation knows.
std::vector<std::string> activation_names();

// The families of the table.
std::vector<LayerType> weight_layers();
std::vector<LayerType> norm_layers();
std::vector<LayerType> pool_layers();
std::vector<LayerType> shape_layers();
std::vector<LayerType> activation_layers();
std::vector<LayerType> block_layers();

// `make` takes a T and the inputs.
template <class T, class Make>
LayerType layer(std::string name, std::string help, options::Describe<T> keys, Make make) {
  return {{std::move(name), std::move(help), keys},
          [make = std::move(make)](const void* options, std::span<const Shape> inputs) -> nn::ModulePtr {
            return make(*static_cast<const T*>(options), inputs);
          }};
}

}  // namespace tandem::models
