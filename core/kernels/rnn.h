// Recurrent kernels: layers over sequences [T,N,C].
//
// One call is a layer in one direction: T steps of N rows, I inputs, H units, P outputs (H, or the rows of
// weight_hr), G gates, in PyTorch's order in the rows of weights. σ is the logistic function, a =
// W_ih x + b_ih, q = W_hh h + b_hh, and
//   lstm      i f o = σ(a + q), g = tanh(a + q); c ← f⊙c + i⊙g; h ← W_hr (o⊙tanh c)       gates i f g o
//   gru       r z = σ(a + q), n = tanh(a + r⊙q); h ← (1-z)⊙n + z⊙h                         gates r z n
//   rnn_tanh  h ← tanh(a + q), rnn_relu  h ← max(a + q, 0)
// Gate arithmetic, c and the gradients of h and c between steps are of the arithmetic type; x, h, weights and
// saved tensors may be of a 16-bit type. Gradients of gates are rounded to it where they enter a product.
#pragma once

#include <array>

#include "core/grad_output.h"
#include "core/op_options.h"

namespace tandem {

inline constexpr Index kRnnSegment = 16;  // steps: see RnnOptions::recompute

// Results of forward that backward needs, in a layout of the device's choice.
struct RnnReserve {
  Tensor gates, states;
};

struct RnnForward {
  RnnOptions options;
  RnnInputs in;
  Tensor y, h_n, c_n;  // [T,N,P], [N,P], and of lstm [N,H]
  bool keep = false;   // backward follows: returns a reserve
};

struct RnnBackward {
  RnnOptions options;
  RnnInputs in;
  Tensor y;
  RnnReserve reserve;
  Tensor dy, dh_n, dc_n;                  // absent: zeros
  std::array<GradOutput, 8> gradients{};  // of `in`, in its order; absent: not needed
};

// The reserve of hosts: gates [T,N,G·H] activated, in the dtype of x, and states [T,N,H]: c of lstm in the
// arithmetic type, q of n for gru in the dtype of x. With `recompute` states alone, [⌈T/kRnnSegment⌉,N,H]: c
// of lstm before each segment. Absent where there is none, and without `keep`.
RnnReserve host_reserve(const RnnForward& args);

struct RnnKernels {
  virtual ~RnnKernels() = default;

  // Writes y, h_n and, for lstm, c_n.
  virtual RnnReserve rnn(const RnnForward& args) = 0;
  virtual void rnn_backward(const RnnBackward& args) = 0;
};

}  // namespace tandem
