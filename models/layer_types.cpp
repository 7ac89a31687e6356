#include "models/layer_types.h"

#include <algorithm>
#include <iterator>

namespace tandem::models {

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> all;
    for (auto family :
         {weight_layers, norm_layers, pool_layers, shape_layers, activation_layers, block_layers})
      std::ranges::move(family(), std::back_inserter(all));
    return all;
  }();
  return types;
}

const LayerType* find_layer_type(std::string_view name) {
  const auto found = std::ranges::find(layer_types(), name, &LayerType::name);
  return found == layer_types().end() ? nullptr : &*found;
}

std::vector<std::string> layer_type_names() {
  std::vector<std::string> names;
  for (const LayerType& type : layer_types()) names.push_back(type.name);
  return names;
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
  const LayerType& found = *find_layer_type(type);
  const Shape unused{1, 1};
  return found.make(record_of(found, {}).data(), {&unused, 1});
}

}  // namespace tandem::models
