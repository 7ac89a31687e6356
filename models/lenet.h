// LeNet-5 (LeCun et al. 1998), with today's usual choices as defaults.
#pragma once

#include <string>

#include "nn/layers/sequential.h"

namespace tandem::models {

struct LeNetOptions {
  Index in_channels = 1;
  Index num_classes = 10;
  Index height = 28, width = 28;    // images below 32×32 are padded by 2 on each side, as in the original
  std::string activation = "relu";  // the original's: "tanh"
  bool average_pool = false;        // as in the original
};

// [N,H,W,C] → [N,num_classes]. Children: conv1, …, conv2, …, fc1, fc2, fc3; fc1 expects PyTorch's order of
// features. Throws UserError for images that are too small.
std::shared_ptr<nn::Sequential> lenet5(const LeNetOptions& options = {});

}  // namespace tandem::models
