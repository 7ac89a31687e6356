// Self-attention layer.
#pragma once

#include "nn/layers/linear.h"

namespace tandem::nn {

struct SelfAttentionOptions {
  Index heads = 1;
  bool bias = true;      // of the projections
  bool causal = false;   // an element sees only itself and earlier ones
  double dropout = 0.0;  // of the attention weights, in training
};

// [N,T,E] → [N,T,E]: queries, keys and values are projections of x, each head has E/heads columns of them,
// and the heads' outputs are projected once more (Vaswani et al. 2017). Parameters and their initialisation
// are those of PyTorch's MultiheadAttention: in_proj_weight [3·E,E], in_proj_bias [3·E], out_proj.weight
// [E,E], out_proj.bias [E].
class SelfAttention final : public Module {
 public:
  // Throws UserError unless the heads divide the features, and for a probability outside [0, 1).
  SelfAttention(Index features, const SelfAttentionOptions& options);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Index features_;
  SelfAttentionOptions options_;
  Parameter in_weight_, in_bias_;
  std::shared_ptr<Linear> out_;
};

}  // namespace tandem::nn
