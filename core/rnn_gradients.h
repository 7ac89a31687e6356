// The gradients of a recurrent layer that are products or sums over many steps at once: those of x, weights
// and biases, from what a walk back through the steps has left. The same for every device.
#pragma once

#include "core/rnn.h"

namespace tandem {

class Backend;

// Which of RnnInputs and of RnnBackward's gradients is which.
enum RnnInput : std::size_t { kX, kH0, kC0, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kWeightHr };

// Of the steps [first, last) in the order in which forward computes them; tensors are in the order of time,
// with zeros where a row is not active.
struct RnnStepGradients {
  Index first, last;
  Tensor da, dq;  // [steps,N,G·H] of what the inputs and what h gave to the gates: one tensor but for gru
  Tensor began;   // [N,G·H]: dq of the step that computed each row from h0; read where first is 0
  Tensor dh, u;   // projected: [steps,N,P] of h, and [steps,N,H], what was projected; else absent
};

// Ranges come from the last to the first: what is summed over all steps is added to from the second one on.
void write_gradients(Backend& backend, const RnnBackward& args, const RnnStepGradients& of);

}  // namespace tandem
