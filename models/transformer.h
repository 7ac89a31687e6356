// Transformer: encoder–decoder for translation (Vaswani et al. 2017).
#pragma once

#include "models/sequence_to_sequence.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/positions.h"
#include "nn/layers/transformer_block.h"

namespace tandem::models {

enum class TransformerActivation : std::uint8_t { relu, gelu };

struct TransformerOptions {
  Index source_words = 32000, target_words = 32000;
  Index encoder_layers = 3, decoder_layers = 3;
  Index width = 256, heads = 4;
  Index inner = 1024;      // width of the perceptrons
  bool norm_first = true;  // pre-norm; post-norm learns only with a warm-up of the learning rate
  double dropout = 0.3;    // of embeddings with positions, attention weights and branches
  TransformerActivation activation = TransformerActivation::relu;
  bool shared = false;  // one embedding table for both sides
  bool tied = true;     // output weights are the target embedding
  nn::Recompute recompute = nn::Recompute::none;
};

// Tokens are embeddings · √width plus sinusoidal positions, which have no limit. Both stacks end with a norm.
//
// Parameters have the names of torch.nn.Transformer, encoder.layers.{i}.{self_attn, linear1, linear2, norm1,
// norm2}, encoder.norm, decoder.layers.{i}.{self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3}
// and decoder.norm; beside them encoder.embedding, decoder.embedding and generator, without a bias. Weights
// start by Xavier's uniform rule, as torch.nn.Transformer's, biases at 0, embeddings at N(0, 1/width).
//
// Parts, for exports: "encoder" of "input_ids" i64 [N,S] and "lengths" i64 [N], with the keys and values of
// each decoder layer's cross-attention, "encoder.{i}.key" and ".value" [N,H,S,D]; and "decoder" of
// "input_ids" and "position_ids" i64 [N,T], "lengths", "encoder.{i}.…", and the keys and values of earlier
// words, "past_key_values.{i}.key" and ".value" [N,H,P,D], with "logits" [N,T,V] and "present.{i}.key" and
// ".value" [N,H,P+T,D]. All rows have the same number of earlier words, which may be 0.
// Positions are rows of a constant table: 512, or `longest` if that is more.
class Transformer final : public SequenceToSequence, public HasWordTables {
 public:
  // Throws UserError for sizes below 1, heads that do not divide the width, and with `shared` for different
  // numbers of words.
  explicit Transformer(const TransformerOptions& options);

  // "{i}.keys" and "{i}.values" [1,N,S,C] of the cross-attention of each decoder layer.
  Memory encode(const Tensor& source, const Tensor& lengths) override;
  // Without gradients. The state is "position" i64 [1,R] in host memory, the words so far, the same for all
  // rows, and "keys" and "values" [L,R,capacity,C] of the self-attention of all decoder layers. Appends to
  // the given state's memory beyond its position.
  Advanced advance(const Tensor& words, const Memory& memory, const State& state) override;
  Tensor scores(const Tensor& hidden) override { return (*generator_)(hidden); }
  bool gives_attention() const override { return false; }
  std::vector<nn::Part> parts(Index longest) override;

  std::string describe() const override;
  // Source words are vocabulary 0, target words vocabulary 1.
  std::vector<WordTable> word_tables() const override {
    return {{"encoder.embedding.weight", 0}, {"decoder.embedding.weight", 1}, {"generator.weight", 1}};
  }

  const TransformerOptions& options() const { return options_; }

 private:
  struct Stack {
    std::shared_ptr<nn::Embedding> embedding;
    std::vector<std::shared_ptr<nn::TransformerBlock>> blocks;
    std::shared_ptr<nn::FeatureNorm> norm;
  };

  Tensor read(const Tensor& target, const Memory& memory) override;
  // Embeddings · √width: [N,T] → [N,T,C].
  Tensor scaled(const Stack& stack, const Tensor& tokens);
  // Words [T,N] → the input of the blocks, [N,T,C].
  Tensor embedded(const Stack& stack, const Tensor& words, Index first = 0);
  // Blocks and norm: x [N,T,C] → [N,T,C]. `memory`: of each block's cross-attention, in a decoder.
  Tensor hidden(const Stack& stack, const Tensor& x, nn::SelfAttentionCall call,
                const std::vector<nn::AttentionMemory>& memory = {});
  // → hidden values [T,R,C].
  Tensor decoded(const Tensor& words, const Memory& memory, nn::KeyValueCache* cache);
  // Forward of the parts, with a table of so many positions.
  TensorList encoder_part(const TensorList& inputs, Index positions);
  TensorList decoder_part(const TensorList& inputs, Index positions);
  Stack make_stack(const std::string& name, const std::shared_ptr<nn::Embedding>& embedding, Index layers);
  void draw();

  TransformerOptions options_;
  Stack encoder_, decoder_;
  std::shared_ptr<nn::SinusoidalPositions> positions_;
  std::shared_ptr<nn::Linear> generator_;
};

}  // namespace tandem::models
