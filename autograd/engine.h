// Reverse-mode differentiation over the tape; iterative, one thread.
//
// Nodes run in reverse order of creation, which is a topological order. An output's gradient is complete when
// all its consumers in the run have delivered. Contributions are summed in f32 and rounded once.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tandem {

struct BackwardOptions {
  bool retain_graph = false;  // keep saved tensors
  // Records the backward itself; implies retain_graph. A leaf with a taped gradient keeps that tape and
  // thereby itself alive until its gradient is cleared; `gradients` makes no such cycle.
  bool create_graph = false;
};

// Accumulates d loss / d leaf · seed into every leaf. Throws UserError unless `loss` is a recorded scalar of
// f32 or f64. The seed is the loss scale.
void backward(const Tensor& loss, double seed = 1.0, BackwardOptions options = {});

// The same for any outputs with given output gradients of the same shapes.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
              BackwardOptions options = {});

// d outputs·output_gradients / d inputs; changes no leaf. Inputs may be leaves or intermediate tensors. The
// gradient of an input that the outputs do not depend on is absent.
TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
                     std::span<const Tensor> inputs, BackwardOptions options = {});

}  // namespace tandem
