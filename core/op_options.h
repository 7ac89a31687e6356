// Options and inputs of ops, shared by their functions (autograd/ops) and their kernels (core/kernels).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace tandem {

// ---- images

struct Conv2dOptions {
  std::array<Index, 2> stride{1, 1};   // height, width
  std::array<Index, 2> padding{0, 0};  // on both sides
  std::array<Index, 2> dilation{1, 1};
  Index groups = 1;
  friend bool operator==(const Conv2dOptions&, const Conv2dOptions&) = default;
};

struct Pool2dOptions {
  std::array<Index, 2> kernel{2, 2};
  std::array<Index, 2> stride{2, 2};
  std::array<Index, 2> padding{0, 0};
  bool count_include_pad = true;  // average pooling: divide by the window's area even where it hangs over
  friend bool operator==(const Pool2dOptions&, const Pool2dOptions&) = default;
};

enum class ResizeMode : std::uint8_t { nearest, bilinear };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // bilinear only: corner pixels stay where they are
  // Pixels of the result per pixel of the image, along height and width: the divisor of coordinates. 0: the
  // ratio of the extents. Ignored if corners are aligned.
  std::array<double, 2> scale{0.0, 0.0};
  friend bool operator==(const ResizeOptions&, const ResizeOptions&) = default;
};

// ---- losses

struct CrossEntropyOptions {
  double label_smoothing = 0.0;
  std::optional<Index> ignore_index;
};

// ---- attention

// Queries see the keys before the length of their row and, where causal, none after themselves: the last
// query stands beside the last key, so query t of Tq sees the keys up to t + Tk - Tq. The keys
// that are seen are thus always a run from the first key; it may be empty.
struct AttentionMask {
  Tensor lengths{};  // i64 [N] in host memory, each in [0,Tk]; absent: all Tk
  bool causal = false;
};

// Number of keys that query t of row n sees, of `keys` for `queries`.
inline Index seen_keys(const AttentionMask& mask, Index n, Index t, Index queries, Index keys) {
  const Index length = mask.lengths.defined() ? mask.lengths.data<std::int64_t>()[n] : keys;
  return mask.causal ? std::clamp<Index>(t + 1 + keys - queries, 0, length) : length;
}

// Additive attention (Bahdanau et al. 2015), normalised where g is given as by Salimans and Kingma (2016):
//   score(t,n,s) = u·tanh(query(t,n) + key(s,n) + b), u = g·v/‖v‖, or v without g,
//   weights(t,n,·) = softmax of the scores over the keys that are seen, in the precision of storage,
//   context(t,n) = Σ_s weights(t,n,s)·value(s,n).
// query, key and value are of one floating dtype, v, g and b of its arithmetic type. Nothing of Tq·Tk·A
// elements is stored: backward computes the tanh again.
struct AdditiveInputs {
  Tensor query, key, value;  // [Tq,N,A], [Tk,N,A], [Tk,N,C]
  Tensor v, g, b;            // [A], [1] or absent, [A] or absent
};

// ---- recurrent layers

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

// Weights, x and h0 are of one floating dtype; biases and c0 of its arithmetic type. Absent: zeros.
struct RnnInputs {
  Tensor x, h0, c0;             // [T,N,I], [N,P], and of lstm [N,H]
  Tensor weight_ih, weight_hh;  // [G·H,I], [G·H,P]
  Tensor bias_ih, bias_hh;      // [G·H]
  Tensor weight_hr;             // [P,H] of lstm; absent: P = H
};

// ---- boxes

enum class BoxMatching : std::uint8_t {
  // Each anchor takes the object with which it overlaps most, if by the threshold or more; each object then
  // takes the anchor that overlaps it most, from any other object; the last of several objects wins
  // (torchvision's SSD).
  argmax,
  // First the pairs of the greatest overlap, one after the other, object and anchor once each, while they
  // overlap by more than 1e-6; then the remaining anchors as above (Liu et al., "SSD: single shot multibox
  // detector", 2016, as in its authors' Caffe).
  greedy,
};

struct BoxMatchOptions {
  BoxMatching matching = BoxMatching::argmax;
  float threshold = 0.5f;  // of intersection over union
  // Divisors of the offsets of centres and of the logarithms of extents.
  std::array<float, 2> variances{0.1f, 0.2f};
};

// The divisor of the sum of weighted losses.
enum class LossShare : std::uint8_t {
  batch,  // the anchors of the batch that have an object, at least one
  image,  // those of the image, at least one, times the images
};

struct MiningOptions {
  double negatives_per_positive = 3.0;
  Index min_negatives = 0;  // of an image
  LossShare share = LossShare::batch;
};

}  // namespace tandem
