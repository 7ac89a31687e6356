// What is written of a module that is exported as a graph, where its own call is not it.
#pragma once

#include <functional>

#include "core/tensor.h"

namespace tandem::nn {

// By ops, on the parameters, statistics and constants of the module.
using Forward = std::function<TensorList(const Tensor&)>;

// Non-maximum suppression of the outputs "boxes" [N,A,4] and "scores" [N,A,K], whose class 0 is none.
struct Suppression {
  Index most = 0;        // boxes of a class in an image that may stay
  double overlap = 0.0;  // of two that overlap by more the less sure one goes
  double score = 0.0;    // must be above it
};

}  // namespace tandem::nn
