// GPT: decoder-only Transformers (Radford et al. 2019). Options make it GPT-2, nanoGPT or Llama.
#pragma once

#include "models/causal_model.h"
#include "models/foreign_names.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/transformer_block.h"
#include "nn/ports.h"

namespace tandem::models {

// Position encoding: learned table, rotation of queries and keys, attention scores minus slope·distance
// (ALiBi), or none, where the causal mask alone tells positions apart.
enum class GptPositions : std::uint8_t { learned, rotary, alibi, none };
// Type of sums of branches: FP32, or that of the branches, 16-bit under mixed precision.
enum class ResidualType : std::uint8_t { fp32, low };

struct GptOptions {
  Index vocabulary = 50257;
  Index layers = 12, width = 768, heads = 12;
  Index kv_heads = 0;    // heads of keys and values; 0: heads
  Index context = 1024;  // the largest number of tokens of a text with learned positions
  Index inner = 0;       // width of the perceptrons; 0: 4·width
  bool bias = true;      // of linear layers and layer norms
  double dropout = 0.0;  // of embeddings, attention weights and branches
  nn::BlockActivation activation = nn::BlockActivation::gelu;
  nn::BlockNorm norm = nn::BlockNorm::layer;
  double eps = 1e-5;
  GptPositions positions = GptPositions::learned;
  double rotary_theta = 10000.0;
  bool rotary_interleaved = false;
  bool tied = true;  // output weights are the embedding table
  ResidualType residual = ResidualType::fp32;
  nn::Recompute recompute = nn::Recompute::none;
};

// Parameters have GPT-2's names and initialisation: wte, wpe, h.{i}.{ln_1, attn.c_attn, attn.c_proj, ln_2,
// mlp.c_fc, mlp.c_proj}, ln_f and lm_head (with `tied` the same parameter as wte). Weights are [out,in];
// c_attn has the rows of queries, keys and values, in this order, and with swiglu c_fc the gates first.
//
// Ports, for exports: "input_ids" and "position_ids" i64 [N,T], and for each layer i the earlier keys and
// values, "past_key_values.{i}.key" and ".value" [N,G,P,D]; outputs "logits" [N,T,V], "present.{i}.key" and
// ".value" [N,G,P+T,D]. All rows have the same number of earlier tokens, which may be 0.
//
// States are for generation: "position" i64 [1,N] in host memory, the tokens so far, and "keys" and "values"
// [L,N,capacity,G·D] in the type of the keys.
class Gpt final : public CausalModel, public nn::Ports, public HasWordTables, public ReadsForeignFiles {
 public:
  // Throws UserError for sizes below 1, and for heads that do not divide the width.
  explicit Gpt(const GptOptions& options);

  State begin(Index texts) const override;
  std::optional<Index> context() const override { return options_.context; }
  bool is_bounded() const override { return options_.positions == GptPositions::learned; }
  bool carries_state() const override { return false; }
  Tensor scores(const Tensor& hidden) override { return (*lm_head_)(hidden); }
  // Without storing the scores of all words, if the vocabulary is large.
  Tensor loss(const Tensor& hidden, const Targets& targets) override;

  TensorList forward_outputs(const TensorList& inputs) override;
  std::vector<nn::Port> inputs() const override;
  std::vector<std::string> outputs() const override;

  std::string describe() const override;
  std::vector<WordTable> word_tables() const override;
  // Those of GPT-2, or with RMS norms of Llama.
  ForeignNames foreign_names(const safetensors::File& file) const override;

  const GptOptions& options() const { return options_; }

 private:
  // Without a state, no keys are kept. Throws UserError for texts longer than learned positions.
  Advanced read(const Tensor& words, const State& state, const Tensor& lengths) override;
  Tensor hidden(const Tensor& tokens, const std::vector<Index>& first, nn::KeyValueCache* cache);
  // `learned`: embeddings of the positions, [T,C] or [N,T,C]; absent for other kinds of positions.
  Tensor hidden(const Tensor& tokens, const Tensor& learned, nn::SelfAttentionCall call);
  Tensor learned(const std::vector<Index>& first, Index count) const;
  // Throws UserError for a text of more tokens than there are learned positions.
  void require_fits(Index tokens) const;
  // Sets the call's positions.
  void rotate(nn::SelfAttentionCall& call, const std::vector<Index>& first, Index count);
  void draw();

  GptOptions options_;
  std::shared_ptr<nn::Embedding> wte_, wpe_;
  std::vector<std::shared_ptr<nn::TransformerBlock>> blocks_;
  std::shared_ptr<nn::FeatureNorm> ln_f_;
  std::shared_ptr<nn::Linear> lm_head_;
  // Constants: i64 [context] 0, 1, …; rotary_table() of positions in the context.
  const Tensor *positions_ = nullptr, *rotary_ = nullptr;
  Tensor longer_;  // table of positions beyond the context, once a text needs them
};

}  // namespace tandem::models
