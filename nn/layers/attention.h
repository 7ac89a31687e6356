// Self-attention layer, and the parameters that it shares with cross-attention.
#pragma once

#include <string>

#include "autograd/ops/attention.h"
#include "autograd/ops/pairs.h"
#include "nn/layers/key_value_cache.h"
#include "nn/layers/linear.h"

namespace tandem::nn {

// Paths of a layer's parameters below it; those of PyTorch's MultiheadAttention.
struct AttentionNames {
  std::string weight = "in_proj_weight", bias = "in_proj_bias";
  std::string out = "out_proj";  // a Linear
};

struct SelfAttentionOptions {
  Index heads = 1;
  bool bias = true;      // of the projections
  bool causal = false;   // an element sees only itself and earlier ones
  double dropout = 0.0;  // of the attention weights, in training
  Index kv_heads = 0;    // heads of keys and values, a divisor of `heads` (grouped-query attention); 0: heads
  AttentionNames names{};
};

// Keys and values [N,G,P,D] of earlier elements.
struct PastKeys {
  Tensor keys, values;
};

// Further inputs of a call.
struct SelfAttentionCall {
  Tensor lengths{};        // of the texts, i64 [N] in host memory; absent: all T
  Tensor rotary_table{};   // of rotary_table(); absent: queries and keys are not rotated
  RotaryOptions rotary{};  // positions of the elements; heads are the layer's
  bool alibi = false;      // scores minus slope·distance, see AttentionOptions
  KeyValueCache* cache{};  // of the elements before x, which those of x are appended to; causal
  // Past of every layer as tensors, instead of a cache. Ops append the keys and values of x, so that graphs
  // of exports contain this.
  std::vector<PastKeys>* past{};
  Index layer = 0;  // of the cache or the past
};

// Columns of heads as an axis: [N,T,heads·D] → [N,heads,T,D].
Tensor heads_apart(const Tensor& x, Index heads);

// Queries, keys and values are projections of tokens of E features, each head has E/heads columns of them,
// and the heads' outputs are projected once more (Vaswani et al. 2017). Parameters and their initialisation
// are those of PyTorch's MultiheadAttention: in_proj_weight [3·E,E], in_proj_bias [3·E], out_proj.weight
// [E,E], out_proj.bias [E]. With G heads of keys for H heads, in_proj_weight is [(1 + 2·G/H)·E,E].
class MultiHeadLayer : public Module {
 protected:
  // Throws UserError, with `name` as its place, unless the heads divide the features, and for a probability
  // outside [0, 1).
  MultiHeadLayer(const char* name, Index features, const SelfAttentionOptions& options);

  // Throws UserError unless x is [N,T,E].
  void require_tokens(const Tensor& x) const;
  // The layer's output [N,T,E] for queries [N,T,E] that attend to keys and values [N,G,S,D].
  Tensor attended(const Tensor& queries, const PastKeys& to, const AttentionOptions& options);
  // "SelfAttention(256 features, 4 heads, causal)".
  std::string described(const char* layer) const;

  const char* name_;
  Index features_;
  SelfAttentionOptions options_;  // kv_heads above 0
  Parameter in_weight_, in_bias_;
  std::shared_ptr<Linear> out_;
};

// [N,T,E] → [N,T,E]: every token attends to those of its own text.
class SelfAttention final : public MultiHeadLayer {
 public:
  SelfAttention(Index features, const SelfAttentionOptions& options)
      : MultiHeadLayer("self_attention", features, options) {}

  Tensor forward(const Tensor& x) override { return attend(x, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const SelfAttentionCall& call) {
    return observed([&] { return attend(x, call); });
  }
  std::string describe() const override { return described("SelfAttention"); }

 private:
  Tensor attend(const Tensor& x, const SelfAttentionCall& call);
};

}  // namespace tandem::nn
