// Attention: what the kernels of Backend's family `attention` take, and which keys a query sees.
#pragma once

#include <algorithm>
#include <array>

#include "core/grad_output.h"
#include "core/tensor.h"

namespace tandem {

// Queries see the keys before the length of their row and, where causal, none after themselves: the last
// query stands beside the last key, so query t of Tq sees the keys up to t + Tk - Tq. What is seen is thus
// always a run from the first key; it may be empty.
struct AttentionMask {
  Tensor lengths{};  // i64 [N] in host memory, each in [0,Tk]; absent: all Tk
  bool causal = false;
};

// Keys that query t of row n sees, of `keys` for `queries`.
inline Index seen_keys(const AttentionMask& mask, Index n, Index t, Index queries, Index keys) {
  const Index length = mask.lengths.defined() ? mask.lengths.data<std::int64_t>()[n] : keys;
  return mask.causal ? std::clamp<Index>(t + 1 + keys - queries, 0, length) : length;
}

// Additive attention (Bahdanau et al. 2015), normalised where g is given as by Salimans and Kingma (2016):
//   score(t,n,s) = u·tanh(query(t,n) + key(s,n) + b), u = g·v/‖v‖, or v without g,
//   weights(t,n,·) = softmax of the scores over the keys that are seen, rounded as they are stored,
//   context(t,n) = Σ_s weights(t,n,s)·value(s,n).
// query, key and value are of one floating dtype, v, g and b of its arithmetic type. Nothing of Tq·Tk·A
// elements is stored: backward computes the tanh again.
struct AdditiveInputs {
  Tensor query, key, value;  // [Tq,N,A], [Tk,N,A], [Tk,N,C]
  Tensor v, g, b;            // [A], [1] or absent, [A] or absent
};

struct AdditiveForward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor context, weights;  // [Tq,N,C], [Tq,N,Tk], of the dtype of `in`
};

struct AdditiveBackward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor weights;
  Tensor dcontext, dweights;              // absent: zeros
  std::array<GradOutput, 6> gradients{};  // of `in`, in its order; absent: not wanted
};

}  // namespace tandem
