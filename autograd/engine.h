// Reverse-mode differentiation over the tape; iterative, one thread.
//
// Nodes run in reverse order of creation, which is a topological order. An output's gradient is complete when
// all its consumers in the run have delivered. Gradients that meet are summed in f32 and rounded once.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tandem {

struct BackwardOptions {
  bool retain_graph = false;  // keep what nodes saved
  // Tape the backward itself; implies retain_graph. A leaf whose gradient is taped keeps that tape alive, and
  // with it itself, until its gradient is cleared; `gradients` makes no such cycle.
  bool create_graph = false;
};

// Accumulates d loss / d leaf · seed into every leaf. Throws UserError unless `loss` is a scalar of f32 or
// f64 that was recorded. The seed is the loss scale.
void backward(const Tensor& loss, double seed = 1.0, BackwardOptions options = {});

// The same from any outputs with given output gradients of the same shapes.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
              BackwardOptions options = {});

// d outputs·output_gradients / d inputs; touches no leaf. An input that the outputs do not depend on has an
// absent gradient. Inputs may be leaves or intermediate tensors.
TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
                     std::span<const Tensor> inputs, BackwardOptions options = {});

}  // namespace tandem
