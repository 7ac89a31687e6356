// Cross-attention layer.
#pragma once

#include "nn/layers/attention.h"

namespace tandem::nn {

struct CrossAttentionOptions {
  Index heads = 1;
  bool bias = true;      // of the projections
  double dropout = 0.0;  // of the attention weights, in training
  AttentionNames names{};
};

// Keys and values of the texts that are attended to, projected for one layer.
struct AttentionMemory {
  Tensor keys, values;  // [N,S,E], or with heads as an axis [N,heads,S,D], as graphs of exports have them
  Tensor lengths{};     // of the texts, i64 [N] in host memory; absent: all S
};

// Tokens of N·W texts attend to those of N others. Parameters and their initialisation are those of
// MultiHeadLayer.
class CrossAttention final : public MultiHeadLayer {
 public:
  CrossAttention(Index features, const CrossAttentionOptions& options);

  // Tokens x [N,S,E] with `lengths` as AttentionMemory's; computed once for all queries.
  AttentionMemory memory(const Tensor& x, const Tensor& lengths);
  // Queries [N·W,T,E] → [N·W,T,E]; the W texts of each text of the memory are adjacent. The memory is not
  // copied W times; one with heads as an axis is of W = 1. Throws UserError without a memory, and unless N
  // divides the number of querying texts.
  using Module::operator();
  Tensor operator()(const Tensor& x, const AttentionMemory& memory) {
    return observed([&] { return attend(x, memory); });
  }
  std::string describe() const override { return described("CrossAttention"); }

 private:
  Tensor attend(const Tensor& x, const AttentionMemory& memory);
  // Queries, keys or values: rows 0, 1 or 2 times E of the projection.
  Tensor projected(const Tensor& x, Index which);
};

}  // namespace tandem::nn
