// Export hooks of a module: an alternative forward and NMS parameters.
#pragma once

#include <functional>

#include "core/tensor.h"

namespace tandem::nn {

// Must consist of ops on the module's parameters, statistics and constants.
using Forward = std::function<TensorList(const Tensor&)>;

// Non-maximum suppression of the outputs "boxes" [N,A,4] and "scores" [N,A,K]; class 0 is the background.
struct Suppression {
  Index most = 0;        // maximum boxes per class and image
  double overlap = 0.0;  // IoU threshold
  double score = 0.0;    // lower bound, exclusive
};

}  // namespace tandem::nn
