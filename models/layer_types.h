// Layer types of configurations: their options, and their construction from input shapes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/options.h"
#include "nn/module.h"

namespace tandem::models {

struct LayerType : options::Variant {
  // `options` match its schema (record_of). `inputs` are the shapes of the layer's inputs, batch first;
  // options that follow from them are optional. Throws OptionError with the option's path.
  std::function<nn::ModulePtr(const void* options, std::span<const Shape> inputs)> make;
  int min_inputs = 1, max_inputs = 1;
  bool several_outputs = false;  // numbered for other layers: "halves.0"
};

// In the order of the documentation.
options::Entries<LayerType>& layer_types();

// A layer type without options, by name ("relu", "tanh", …). Throws UserError for an unknown name.
nn::ModulePtr new_activation(const std::string& type);
// The types that new_activation knows.
std::vector<std::string> activation_names();

// The groups of the table.
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
