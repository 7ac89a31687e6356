#include "nn/layers/cross_attention.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

CrossAttention::CrossAttention(Index features, const CrossAttentionOptions& options)
    : MultiHeadLayer("cross_attention", features,
                     {.heads = options.heads,
                      .bias = options.bias,
                      .dropout = options.dropout,
                      .names = options.names}) {}

Tensor CrossAttention::projected(const Tensor& x, Index which) {
  return linear_outputs(x, in_weight_.tensor(), tensor_if_defined(in_bias_), {which * features_, features_});
}

AttentionMemory CrossAttention::memory(const Tensor& x, const Tensor& lengths) {
  require_tokens(x);
  const TensorList both = observed([&] { return TensorList{projected(x, 1), projected(x, 2)}; });
  return {.keys = both[0], .values = both[1], .lengths = lengths};
}

Tensor CrossAttention::attend(const Tensor& x, const AttentionMemory& memory) {
  require_tokens(x);
  require(memory.keys.defined() && memory.values.defined(), name_,
          "needs a memory of keys and values, got none");
  const AttentionOptions options{
      .lengths = memory.lengths, .dropout = options_.dropout, .training = training()};
  if (memory.keys.rank() == 4) return attended(projected(x, 0), {memory.keys, memory.values}, options);
  const Index texts = memory.keys.size(0);
  require(texts > 0 && x.size(0) % texts == 0, name_,
          "the texts of the queries must be a multiple of the {} of the memory, got {}", texts, x.size(0));
  // Texts that attend to the same one are its queries, side by side.
  const Tensor queries = reshape(projected(x, 0), {texts, x.size(0) / texts * x.size(1), features_});
  const Tensor found =
      multi_head_attention(queries, memory.keys, memory.values, {.queries = options_.heads}, options);
  return (*out_)(reshape(found, x.shape()));
}

}  // namespace tandem::nn
