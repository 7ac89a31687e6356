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
  std::array<Index, 2> padding{0, 0};  // on each side
  std::array<Index, 2> dilation{1, 1};
  Index groups = 1;
  friend bool operator==(const Conv2dOptions&, const Conv2dOptions&) = default;
};

struct Pool2dOptions {
  std::array<Index, 2> kernel{2, 2};
  std::array<Index, 2> stride{2, 2};
  std::array<Index, 2> padding{0, 0};
  bool count_include_pad = true;  // average pooling: padding counts in the divisor
  friend bool operator==(const Pool2dOptions&, const Pool2dOptions&) = default;
};

enum class ResizeMode : std::uint8_t { nearest, bilinear };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // bilinear only: corner pixels keep their positions
  // Output pixels per input pixel, along height and width: the divisor of coordinates. 0: the ratio of the
  // extents. Ignored with align_corners.
  std::array<double, 2> scale{0.0, 0.0};
  friend bool operator==(const ResizeOptions&, const ResizeOptions&) = default;
};

// ---- losses

struct CrossEntropyOptions {
  double label_smoothing = 0.0;
  std::optional<Index> ignore_index;
};

// ---- attention

// A query sees a run of keys, which may be empty: those within the length of its row and, if causal, none
// after itself. Causal masks align the last query with the last key: query t of Tq stands at key t + Tk - Tq.
// Under a causal mask, a window limits the run to its last `window` keys, and documents to the query's own.
struct AttentionMask {
  Tensor lengths{};  // i64 [N] in host memory, each in [0,Tk]; absent: all Tk
  bool causal = false;
  Index window = 0;    // 0: no limit
  Tensor documents{};  // i64 [N,Tk] in host memory: the first key of each key's document; absent: no limit
};

struct KeyRange {
  Index first, last;  // half open

  Index count() const { return last - first; }
};

// Keys that query t of row n sees.
inline KeyRange seen_keys(const AttentionMask& mask, Index n, Index t, Index queries, Index keys) {
  const Index length = mask.lengths.defined() ? mask.lengths.data<std::int64_t>()[n] : keys;
  if (!mask.causal) return {0, length};
  const Index position = t + keys - queries, last = std::clamp<Index>(position + 1, 0, length);
  Index first = mask.window > 0 ? std::max<Index>(0, position + 1 - mask.window) : 0;
  if (mask.documents.defined() && position >= 0)
    first = std::max<Index>(first, mask.documents.data<std::int64_t>()[n * keys + position]);
  return {std::min(first, last), last};
}

// Head h of H heads of queries reads head ⌊h·G/H⌋ of G heads of keys and values.
struct AttentionSizes {
  Index texts = 0, heads = 0, key_heads = 0;  // N, H, G
  Index queries = 0, keys = 0;                // Tq, Tk
  Index width = 0, value_width = 0;           // D of queries and keys, E of values and results
};

// Additive attention (Bahdanau et al. 2015); g normalises v (Salimans and Kingma 2016):
//   score(t,n,s) = u·tanh(query(t,n) + key(s,n) + b), u = g·v/‖v‖, or v without g,
//   weights(t,n,·) = softmax of the scores over the visible keys, in the storage type,
//   context(t,n) = Σ_s weights(t,n,s)·value(s,n).
// query, key and value share a floating dtype; v, g and b have its arithmetic type. No tensor of Tq·Tk·A
// elements is stored: backward recomputes tanh.
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
  // Forward keeps only the states of every kRnnSegment-th step, and backward recomputes the gates: about 4/3
  // of the products, 1/16 of the memory.
  bool recompute = false;
  // Steps of each row: i64 [N] in host memory, each in [0,T]; absent: T. Beyond its length a row has y = 0,
  // keeps its states and gets no gradient. A reversed row starts at its length - 1.
  Tensor lengths{};
};

// Weights, x and h0 share a floating dtype; biases and c0 have its arithmetic type. Absent: zeros.
struct RnnInputs {
  Tensor x, h0, c0;             // [T,N,I], [N,P], and for lstm [N,H]
  Tensor weight_ih, weight_hh;  // [G·H,I], [G·H,P]
  Tensor bias_ih, bias_hh;      // [G·H]
  Tensor weight_hr;             // [P,H] for lstm; absent: P = H
};

// ---- boxes

enum class BoxMatching : std::uint8_t {
  // Each anchor gets the object with the largest IoU if that reaches the threshold. Then each object gets the
  // anchor with the largest IoU, even from another object; of several objects the last wins (torchvision's
  // SSD).
  argmax,
  // First the pairs with the largest IoU, each object and anchor once, as long as the IoU exceeds 1e-6; then
  // the remaining anchors by the threshold (Liu et al., "SSD: single shot multibox detector", 2016, as in the
  // authors' Caffe).
  greedy,
};

struct BoxMatchOptions {
  BoxMatching matching = BoxMatching::argmax;
  float threshold = 0.5f;  // IoU
  // Divisors of centre offsets and of logarithms of extents.
  std::array<float, 2> variances{0.1f, 0.2f};
};

// Divisor of the sum of weighted losses.
enum class LossShare : std::uint8_t {
  batch,  // number of anchors with an object in the batch, at least 1
  image,  // the same in the image, times the number of images
};

struct MiningOptions {
  double negatives_per_positive = 3.0;
  Index min_negatives = 0;  // per image
  LossShare share = LossShare::batch;
};

}  // namespace tandem
