// Fully connected network.
#pragma once

#include <string>
#include <vector>

#include "nn/layers/sequential.h"

namespace tandem::models {

struct MlpOptions {
  Index in_features = 784;
  std::vector<Index> hidden{128};
  Index num_classes = 10;
  std::string activation = "relu";  // a layer type without required options
  bool batch_norm = false;          // before each activation
  double dropout = 0.0;             // after each activation
};

// [N,…] (flattened) → [N,num_classes]. Children: fc1, bn1, activation1, dropout1, fc2, …
std::shared_ptr<nn::Sequential> mlp(const MlpOptions& options);

}  // namespace tandem::models
