// Attention kernels: scaled dot-product attention, masked softmax and additive attention.
#pragma once

#include <array>

#include "core/grad_output.h"
#include "core/op_options.h"
#include "core/random.h"

namespace tandem {

// Heads of a tensor, in any arrangement with adjacent elements of a head: element d of token t of head h of
// text n is at offset + n·text + h·head + t·token + d.
struct HeadRows {
  Tensor tensor;
  Index offset = 0, text = 0, head = 0, token = 0;  // in elements
};

// Scores are scale·q·kᵀ; with alibi, less alibi_slope(h)·(distance of query and key). Weights are their
// softmax over the visible keys. Dropout of weight (n,h,t,j) uses the random word of its index in
// [N,H,Tq,Tk].
struct AttentionCall {
  AttentionSizes size;
  AttentionMask mask;
  double scale = 1.0;
  bool alibi = false;
  double dropout = 0.0;
  RandomKey random;  // of dropout
};

// Tensors have 16-bit types or f32; sums are f32. Keys and values beyond a row's length may be anything. A
// query that sees no key gets a result of 0 and lse -∞. Weights are rounded to the type of the values before
// the product with them, and not stored.
struct AttentionForward : AttentionCall {
  HeadRows query, key, value, result;
  Tensor lse;  // f32 [N,H,Tq]: logarithm of the sum of exponentials of the scores
};

struct AttentionBackward : AttentionCall {
  HeadRows query, key, value, result;
  Tensor lse;
  HeadRows dresult;
  HeadRows dquery, dkey, dvalue;
};

struct AdditiveForward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor context, weights;  // [Tq,N,C], [Tq,N,Tk], in the dtype of `in`
};

struct AdditiveBackward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor weights;
  Tensor dcontext, dweights;              // absent: zeros
  std::array<GradOutput, 6> gradients{};  // of `in`, in its order; absent: not needed
};

struct AttentionKernels {
  virtual ~AttentionKernels() = default;

  // Flash attention (Dao, "FlashAttention-2", 2023): blocks of scores, none of which are stored.
  virtual void attention(const AttentionForward& args) = 0;
  // Recomputes the weights from lse. Each head's gradients are summed in a fixed order.
  virtual void attention_backward(const AttentionBackward& args) = 0;
  // Softmax over the last axis of x [N,…,Tq,Tk], limited to the keys visible to each query. Masked keys get 0
  // for any x.
  virtual void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) = 0;
  // dx may be dy. dy of masked keys is not read.
  virtual void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                                       const Tensor& dx) = 0;
  virtual void additive_attention(const AdditiveForward& args) = 0;
  virtual void additive_attention_backward(const AdditiveBackward& args) = 0;
};

}  // namespace tandem
