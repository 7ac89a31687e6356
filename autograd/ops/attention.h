// Attention: softmax over the keys that each query sees, and the two forms of attention made of it. Which
// keys those are says core/attention.h: the ones before the length of their row and, where causal, none after
// the query, aligned at the end. They are chosen, never masked by a number that is added: what stands in the
// other places, NaN included, takes no part, and a query that sees no key has weights and gradients of 0.
//
// Softmax and sums are computed in f32 (f64 for f64); weights have the dtype of the scores, so that they are
// 16-bit under mixed precision. Luong's attention is masked_softmax between two products.
#pragma once

#include "autograd/op.h"

namespace tandem {

// x [N,…,Tq,Tk] over its last axis. Without causal a query stands for every row, so [N,Tk] will do, and
// without lengths [Tk]. Throws UserError for lengths that are not i64 [N] in host memory in [0,Tk], and for x
// with fewer axes than the mask needs.
Tensor masked_softmax(const Tensor& x, const AttentionMask& mask = {});

struct AttentionOptions {
  Index heads = 1;
  double scale = 0.0;  // of the products; 0: 1/√D
  Tensor lengths{};    // of the keys of each row, as AttentionMask's
  bool causal = false;
  double dropout = 0.0;  // of the weights
  bool training = true;
};

// Softmax(scale·q·kᵀ)·v for each head (Vaswani et al. 2017): query [Tq,N,H·D], key [Tk,N,H·D], value
// [Tk,N,H·E] → [Tq,N,H·E], the layout of sequences, head h having the h-th D columns. Products are matmul's,
// in 16 bits under mixed precision. Keys and values beyond a length must be finite, for they are multiplied
// by zeros. Throws UserError for shapes that do not fit.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

// Additive attention's parameters, kept in f32: v [A], the scale g [1] of its direction (absent: v as it is,
// Bahdanau's own form), and the bias b [A] or absent.
struct AdditiveWeights {
  Tensor v, g, b;
};

struct AttentionResult {
  Tensor context;  // [Tq,N,C]
  Tensor weights;  // [Tq,N,Tk]
};

// Queries [Tq,N,A] and keys [Tk,N,A], already projected, values [Tk,N,C] as they are. One kernel: nothing of
// Tq·N·Tk·A elements is stored. What lies beyond a length may be anything. Throws UserError for shapes and
// dtypes that do not fit, and lengths as masked_softmax.
AttentionResult additive_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AdditiveWeights& weights, const AttentionMask& mask = {});

}  // namespace tandem
