// Recurrent kernels: layers over sequences [T,N,C].
//
// A call computes a layer in one direction: T steps of N rows, I inputs, H units, P outputs (H, or the rows
// of weight_hr) and G gates in PyTorch's order. With the logistic function σ, a = W_ih x + b_ih and q = W_hh
// h + b_hh, the cells are
//   lstm      i f o = σ(a + q), g = tanh(a + q); c ← f⊙c + i⊙g; h ← W_hr (o⊙tanh c)       gates i f g o
//   gru       r z = σ(a + q), n = tanh(a + r⊙q); h ← (1-z)⊙n + z⊙h                         gates r z n
//   rnn_tanh  h ← tanh(a + q), rnn_relu  h ← max(a + q, 0)
// Gates, c, and the gradients of h and c between steps have the arithmetic type; x, h, weights and saved
// tensors may be 16-bit. Gate gradients are rounded to that type before products.
#pragma once

#include <array>

#include "core/grad_output.h"
#include "core/op_options.h"

namespace tandem {

inline constexpr Index kRnnSegment = 16;  // steps: see RnnOptions::recompute

// Results of forward that backward needs, in the device's own layout.
struct RnnReserve {
  Tensor gates, states;
};

struct RnnForward {
  RnnOptions options;
  RnnInputs in;
  Tensor y, h_n, c_n;  // [T,N,P], [N,P], and for lstm [N,H]
  bool keep = false;   // return the reserve for backward
};

struct RnnBackward {
  RnnOptions options;
  RnnInputs in;
  Tensor y;
  RnnReserve reserve;
  Tensor dy, dh_n, dc_n;                  // absent: zeros
  std::array<GradOutput, 8> gradients{};  // of `in`, in its order; absent: not needed
};

// A new reserve in the common layout: activated gates [T,N,G·H] in the dtype of x, and states [T,N,H], which
// are c for lstm in the arithmetic type, and q of gate n for gru in the dtype of x. With `recompute` only
// states [⌈T/kRnnSegment⌉,N,H]: c for lstm before each segment. Unneeded tensors are absent, and all without
// `keep`.
RnnReserve host_reserve(const RnnForward& args);

struct RnnKernels {
  virtual ~RnnKernels() = default;

  // Writes y, h_n and, for lstm, c_n.
  virtual RnnReserve rnn(const RnnForward& args) = 0;
  virtual void rnn_backward(const RnnBackward& args) = 0;
};

}  // namespace tandem
