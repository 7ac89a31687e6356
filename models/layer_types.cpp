#include "models/layer_types.h"

#include <algorithm>

namespace tandem::models {

options::Entries<LayerType>& layer_types() {
  static options::Entries<LayerType> types(
      "layer type", {weight_layers, norm_layers, pool_layers, shape_layers, activation_layers, block_layers});
  return types;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const LayerType& type : activation_layers()) names.push_back(type.name);
  return names;
}

nn::ModulePtr new_activation(const std::string& type) {
  const std::vector<std::string> names = activation_names();
  require(std::ranges::count(names, type) == 1, "activation", "there is no activation \"{}\"{}", type,
          suggestion(type, names));
  const LayerType& found = layer_types().at(type);
  const Shape unused{1, 1};
  return found.make(record_of(found, {}).data(), {&unused, 1});
}

}  // namespace tandem::models
