// Attention: scaled dot products, masked softmax and additive attention. core/op_options.h defines the mask:
// a query sees the keys within the length of their row and, if causal, none after itself, aligned at the end.
// Masked positions are excluded, not masked by adding a number. A query that sees no key has weights and
// gradients of 0.
//
// Softmax and sums are computed in f32 (f64 for f64). Luong's attention is masked_softmax between two
// products.
#pragma once

#include <optional>

#include "autograd/op.h"
#include "core/op_options.h"

namespace tandem {

// Softmax of x [N,…,Tq,Tk] over its last axis. Without causal the mask is the same for every query, so [N,Tk]
// suffices, and without lengths [Tk]. Throws UserError for lengths that are not i64 [N] in host memory in
// [0,Tk], and for x with fewer axes than the mask needs.
Tensor masked_softmax(const Tensor& x, const AttentionMask& mask = {});

struct AttentionOptions {
  std::optional<double> scale{};  // of the products; default: 1/√D
  Tensor lengths{};               // of the keys of each row, as AttentionMask's
  bool causal = false;
  double dropout = 0.0;  // of the weights
  bool training = true;
  Index window = 0;    // with causal: the last keys that a query sees, as AttentionMask's
  Tensor documents{};  // with causal: as AttentionMask's
  bool alibi = false;  // scores less slope(head)·distance (Press et al. 2022)
  Index keys = 0;      // the first keys and values of each row, of a cache with room for more; 0: all
  // From products and masked_softmax, which store scores and weights in the type of the inputs.
  bool composed = false;
};

// Softmax(scale·q·kᵀ)·v (Vaswani et al. 2017): query [N,…,Tq,D], key [N,…,Tk,D], value [N,…,Tk,E] →
// [N,…,Tq,E], where heads are an axis as in PyTorch. One kernel, which stores no scores (FlashAttention-2,
// Dao 2023); products are 16-bit under mixed precision, with sums, scores and softmax in f32. f64 is
// composed. Throws UserError for mismatched shapes.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

// Heads of queries, and of keys and values: a divisor, if several heads of queries share one (grouped-query
// attention), or 0 for as many.
struct Heads {
  Index queries = 1;
  Index keys = 0;
};

// The same for heads that are columns, side by side, as projections return them: query [N,Tq,H·D], key
// [N,Tk,G·D], value [N,Tk,G·E] → [N,Tq,H·E] for H heads of queries and G of keys.
Tensor multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Heads& heads,
                            const AttentionOptions& options = {});
// For one projection [N,T,(H+2G)·D] of queries, keys and values, in this order.
Tensor multi_head_attention(const Tensor& projection, const Heads& heads,
                            const AttentionOptions& options = {});

// Parameters of additive attention, kept in f32: v [A], the scale g [1] of its direction (absent: v unscaled,
// Bahdanau's form), and the bias b [A] or absent.
struct AdditiveWeights {
  Tensor v, g, b;
};

struct AttentionResult {
  Tensor context;  // [Tq,N,C]
  Tensor weights;  // [Tq,N,Tk]
};

// Projected queries [Tq,N,A] and keys [Tk,N,A], values [Tk,N,C]. One kernel: no tensor of Tq·N·Tk·A elements
// is stored. Values beyond a length may be anything. Throws UserError for mismatched shapes and dtypes, and
// lengths as masked_softmax.
AttentionResult additive_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AdditiveWeights& weights, const AttentionMask& mask = {});

}  // namespace tandem
