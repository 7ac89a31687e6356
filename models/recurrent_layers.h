// Recurrent layers that are called one by one, under one name.
#pragma once

#include <string>
#include <vector>

#include "nn/layers/recurrent.h"

namespace tandem::models {

// Children "0", "1", …; nothing goes through them as a whole.
class RecurrentLayers final : public nn::Module {
 public:
  explicit RecurrentLayers(const std::vector<std::shared_ptr<nn::Recurrent>>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) add_child(std::to_string(i), layers[i]);
  }
  std::string describe() const override { return "RecurrentLayers"; }
};

}  // namespace tandem::models
