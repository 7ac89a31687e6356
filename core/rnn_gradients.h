// Gradients of a recurrent layer's inputs, weights and biases: products or sums over many steps, computed
// after the backward pass through the steps. Shared by all devices.
#pragma once

#include "core/kernels/rnn.h"

namespace tandem {

class Backend;

// Indices in RnnInputs and in RnnBackward's gradients.
enum RnnInput : std::size_t { kX, kH0, kC0, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kWeightHr };

// Results for the steps [first, last) in forward's order of computation; tensors are in time order, with
// zeros in inactive rows.
struct RnnStepGradients {
  Index first, last;
  Tensor da, dq;  // [steps,N,G·H] of the input and hidden parts of the gates; one tensor except for gru
  Tensor began;   // [N,G·H]: dq of each row's first step, from h0; used if first is 0
  Tensor dh, u;   // with projection: [steps,N,P] of h, and [steps,N,H], the projected values; else absent
};

// Call with ranges from the last to the first; sums over all steps accumulate from the second call on.
void write_gradients(Backend& backend, const RnnBackward& args, const RnnStepGradients& of);

}  // namespace tandem
