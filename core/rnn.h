// Recurrent layers over sequences [T,N,C]: what Backend::rnn and rnn_backward take.
//
// One call is a layer in one direction: T steps of N rows, I inputs, H units, P outputs (H, or what weight_hr
// projects to), G gates, whose order in the rows of weights is PyTorch's. σ is the logistic function, a =
// W_ih x + b_ih, q = W_hh h + b_hh, and
//   lstm      i f o = σ(a + q), g = tanh(a + q); c ← f⊙c + i⊙g; h ← W_hr (o⊙tanh c)       gates i f g o
//   gru       r z = σ(a + q), n = tanh(a + r⊙q); h ← (1-z)⊙n + z⊙h                         gates r z n
//   rnn_tanh  h ← tanh(a + q), rnn_relu  h ← max(a + q, 0)
// Gate arithmetic, c and the gradients of h and c between steps are of the arithmetic type; x, h, weights and
// what is saved may be of a 16-bit type. Gradients of gates are rounded to it where they enter a product.
#pragma once

#include <array>

#include "core/grad_output.h"
#include "core/tensor.h"

namespace tandem {

enum class RnnCell : std::uint8_t { lstm, gru, rnn_tanh, rnn_relu };

constexpr Index gates_of(RnnCell cell) { return cell == RnnCell::lstm ? 4 : cell == RnnCell::gru ? 3 : 1; }

// "lstm", "gru", "rnn_tanh", "rnn_relu"
constexpr const char* name_of(RnnCell cell) {
  constexpr const char* names[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  return names[static_cast<int>(cell)];
}

struct RnnOptions {
  RnnCell cell = RnnCell::lstm;
  bool reverse = false;  // from the last step to the first
  // Backward computes the gates again from states of every kRnnSegment-th step, which is all that forward
  // leaves then: about 4/3 of the products, 1/16 of the memory.
  bool recompute = false;
  // Steps of each row: i64 [N] in host memory, each in [0,T]; absent: all T. Beyond its length a row gives
  // y = 0, keeps its states, and gets no gradient; reversed it begins at its length - 1.
  Tensor lengths{};
};

inline constexpr Index kRnnSegment = 16;

// Weights, x and h0 are of one floating dtype; biases and c0 of its arithmetic type. Absent: zeros.
struct RnnInputs {
  Tensor x, h0, c0;             // [T,N,I], [N,P], and of lstm [N,H]
  Tensor weight_ih, weight_hh;  // [G·H,I], [G·H,P]
  Tensor bias_ih, bias_hh;      // [G·H]
  Tensor weight_hr;             // [P,H] of lstm; absent: P = H
};

// What backward wants of forward, as the device likes it.
struct RnnReserve {
  Tensor gates, states;
};

struct RnnForward {
  RnnOptions options;
  RnnInputs in;
  Tensor y, h_n, c_n;  // [T,N,P], [N,P], and of lstm [N,H]
  bool keep = false;   // backward follows
};

struct RnnBackward {
  RnnOptions options;
  RnnInputs in;
  Tensor y;
  RnnReserve reserve;
  Tensor dy, dh_n, dc_n;                  // absent: zeros
  std::array<GradOutput, 8> gradients{};  // of `in`, in its order; absent: not wanted
};

// The reserve of hosts: gates [T,N,G·H] activated, in the dtype of x, and states [T,N,H]: c of lstm in the
// arithmetic type, q of n for gru in the dtype of x. With `recompute` states alone, [⌈T/kRnnSegment⌉,N,H]: c
// of lstm before each segment. Absent where there is none, and without `keep`.
RnnReserve host_reserve(const RnnForward& args);

}  // namespace tandem
