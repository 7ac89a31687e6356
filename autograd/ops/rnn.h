// Recurrent layers over sequences [T,N,C]. core/kernels/rnn.h defines the formulas, the order of gates and
// the lengths; weights have PyTorch's layout.
//
// Inside the op, the cell's state and gates and their gradients are f32 (f64 for f64) for any dtype of x, and
// so are c_0 and c_n. Backward saves x, y, the activated gates in the dtype of x, and c in f32: 12 bytes per
// unit and step in 16 bits, 20 in f32.
#pragma once

#include <span>

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

// Weights of one layer in one direction: [G·H,I], [G·H,P], [G·H] or absent, the same, and for lstm [P,H] or
// absent.
struct RnnWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
};

// Hidden state h and, for lstm, cell state c. Absent: zeros.
struct RnnState {
  Tensor h, c;
};

struct RnnResult {
  Tensor y;        // h of every step
  RnnState state;  // after the last step of each row
};

// One layer in one direction: x [T,N,I], state [N,P] and [N,H] → y [T,N,P]. Throws UserError for mismatched
// shapes and dtypes, an empty sequence, and lengths that are not i64 [N] in host memory in [0,T].
RnnResult rnn_layer(const Tensor& x, const RnnState& state, const RnnWeights& weights,
                    const RnnOptions& options = {});

struct RnnStack {
  RnnCell cell = RnnCell::lstm;
  bool bidirectional = false;
  bool recompute = false;
  double dropout = 0.0;  // between layers, with independent masks; not after the last layer
  bool training = true;
  Tensor lengths{};
};

// Stacked layers, `weights` of layer k and direction d at k·D + d; states [L·D,N,P] and [L·D,N,H] likewise →
// y [T,N,D·P].
RnnResult rnn_stack(const Tensor& x, const RnnState& state, std::span<const RnnWeights> weights,
                    const RnnStack& options = {});

}  // namespace tandem
