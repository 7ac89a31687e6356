// Block of a Transformer: self-attention, in a decoder cross-attention, then a multilayer perceptron, each
// with a norm and added to its input.
#pragma once

#include <array>
#include <string>

#include "autograd/recompute.h"
#include "nn/layers/cross_attention.h"
#include "nn/layers/norm.h"

namespace tandem::nn {

enum class BlockNorm : std::uint8_t { layer, rms };
enum class BlockActivation : std::uint8_t { gelu, gelu_tanh, relu, swiglu };
// Activations of a block that backward recomputes instead of storing them: none, those of the perceptron, or
// all but the block's input.
enum class Recompute : std::uint8_t { none, mlp, block };
inline constexpr std::array kRecomputeNames{"none", "mlp", "block"};

// Paths of a block's parameters, different in each family of models. `attention` is a SelfAttention,
// `cross` a CrossAttention, and `projections` are paths below either.
struct BlockNames {
  std::string norm1, attention;
  AttentionNames projections{};
  std::string norm2, inner, outer;
  std::string cross_norm{}, cross{};  // if the block has cross-attention
};

struct TransformerBlockOptions {
  Index width = 0;
  Index heads = 1, kv_heads = 0;  // see SelfAttentionOptions
  Index inner = 0;                // width of the perceptron; 0: 4·width
  BlockNorm norm = BlockNorm::layer;
  bool norm_first = true;  // pre-norm: x + branch(norm(x)); else post-norm: norm(x + branch(x))
  BlockActivation activation = BlockActivation::gelu;
  bool bias = true;  // of projections, perceptron and layer norms
  bool causal = false;
  bool cross = false;  // with cross-attention between self-attention and perceptron
  double eps = 1e-5;
  double attention_dropout = 0.0;  // of attention weights
  double dropout = 0.0;            // of each branch before it is added
  double inner_dropout = 0.0;      // after the activation
  // Type of sums of branches: FP32; else that of the branches, which is 16-bit under mixed precision.
  bool wide_residual = true;
  Recompute recompute = Recompute::none;  // in training
};

// Input and output of blocks: the value is x + branch, where `branch` is absent or not yet added, so that the
// sum and the norm that follows are one op.
struct Residual {
  Tensor x, branch{};
};

// [N,T,C] → [N,T,C]. With swiglu (Shazeer 2020) the inner layer has 2·inner outputs, first the gates g, then
// u; the outer layer reads silu(g)·u.
class TransformerBlock final : public Module {
 public:
  // Throws UserError for sizes below 1, and as the attention layers do.
  TransformerBlock(const TransformerBlockOptions& options, const BlockNames& names);

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  Residual operator()(const Residual& in, const SelfAttentionCall& call = {},
                      const AttentionMemory& memory = {}) {
    return observed([&] { return pass(in, call, memory); });
  }
  // Memory of the block's cross-attention, see CrossAttention::memory.
  AttentionMemory memory(const Tensor& x, const Tensor& lengths);
  std::string describe() const override;

  Recompute recompute() const { return options_.recompute; }
  // Backward calls a recomputed block again: until then it must exist, with the same settings and mode.
  void set_recompute(Recompute part);

 private:
  // Recomputed in backward, or not.
  Residual pass(const Residual& in, const SelfAttentionCall& call, const AttentionMemory& memory);
  Residual run(const Residual& in, const SelfAttentionCall& call, const AttentionMemory& memory);
  Tensor perceptron(const Tensor& x);
  bool recomputes(Recompute part) const { return options_.recompute == part && training(); }

  TransformerBlockOptions options_;
  std::shared_ptr<FeatureNorm> norm1_, cross_norm_, norm2_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<CrossAttention> cross_;
  std::shared_ptr<Linear> inner_, outer_;
  std::vector<Parameter> recomputed_;  // parameters of the part that is recomputed
};

// A norm of the given kind, with the type of the product that reads it. `bias`: of a layer norm.
std::shared_ptr<FeatureNorm> make_norm(BlockNorm norm, Index features, double eps, bool bias = true);

struct ResidualOptions {
  double dropout = 0.0;  // of the branch
  bool training = false;
  bool wide = true;  // see TransformerBlockOptions::wide_residual
};
// x + dropout(branch).
Tensor joined(const Residual& in, const ResidualOptions& options);
// The same with its norm: for the product that reads it, or, if `wide`, in the type of the sum.
ResidualNormResult normed(FeatureNorm& norm, const Residual& in, const ResidualOptions& options,
                          bool wide = false);

}  // namespace tandem::nn
