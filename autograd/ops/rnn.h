// Recurrent layers over sequences [T,N,C]. core/rnn.h has the formulas, the order of gates and what lengths
// mean; weights are as PyTorch keeps them.
//
// The cell's state and gates and their gradients are f32 (f64 for f64) inside the op, whatever the dtype of
// x; c_0 and c_n are, too. What is saved for a backward pass is x, y and, in the dtype of x, the activated
// gates, with c in f32: 12 bytes a unit and step in 16 bits, 20 in f32.
#pragma once

#include <span>

#include "autograd/op.h"

namespace tandem {

// Of one layer in one direction: [G·H,I], [G·H,P], [G·H] or absent, the same, and for lstm [P,H] or absent.
struct RnnWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
};

// Hidden state h and, of lstm, cell state c. Absent: zeros.
struct RnnState {
  Tensor h, c;
};

struct RnnResult {
  Tensor y;        // h of every step
  RnnState state;  // after the last step of each row
};

// One layer in one direction: x [T,N,I], state [N,P] and [N,H] → y [T,N,P]. Throws UserError for shapes and
// dtypes that do not fit, no steps at all, and lengths that are not i64 [N] in host memory in [0,T].
RnnResult rnn_layer(const Tensor& x, const RnnState& state, const RnnWeights& weights,
                    const RnnOptions& options = {});

struct RnnStack {
  RnnCell cell = RnnCell::lstm;
  bool bidirectional = false;
  bool recompute = false;
  double dropout = 0.0;  // between layers, a new mask for every element; none after the last layer
  bool training = true;
  Tensor lengths{};
};

// Layers on top of each other, `weights` of layer k and direction d at k·D + d; states [L·D,N,P] and
// [L·D,N,H] likewise → y [T,N,D·P].
RnnResult rnn_stack(const Tensor& x, const RnnState& state, std::span<const RnnWeights> weights,
                    const RnnStack& options = {});

}  // namespace tandem
