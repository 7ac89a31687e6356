// The writing half of an encoder–decoder: the next word of a sentence from those before it and from what an
// encoder has read.
#pragma once

#include <memory>
#include <vector>

#include "models/sequence_attention.h"
#include "models/sequence_to_sequence.h"
#include "nn/layers/embedding.h"
#include "nn/layers/recurrent.h"

namespace tandem::models {

struct SequenceDecoderOptions {
  Index words = 32000, embedding = 1024, units = 1024, layers = 4;
  Index values = 1024;  // of the encoder, for each word
  AttentionKind attention = AttentionKind::bahdanau_normalised;
  double dropout = 0.2;  // of what goes into each layer
  bool tied = false;     // the output's weights are the embedding's table
  bool recompute = false;
};

// The first layer reads the embedding; its output asks the encoder (SequenceAttention), and what comes back,
// the context, is read by every later layer beside the output of the one before. From the third layer on
// there is a residual connection. Since only the first layer's output asks, all steps of a layer are computed
// in one call where the words are known.
//
// Parameters are called as in NVIDIA's GNMT v2: embedder.weight, att_rnn.rnn.weight_ih_l0, …,
// att_rnn.attn.linear_q.weight, …, rnn_layers.0.weight_ih_l0, …, classifier.classifier.weight and …bias.
class SequenceDecoder final : public nn::Module {
 public:
  // `hidden` are the outputs of the last layer; the state is "0.h", "0.c", "1.h", …, [1,R,H] of each layer.
  using Advanced = SequenceToSequence::Advanced;

  // Throws UserError for sizes below 1, for less than two layers, which the context would not reach, and with
  // `tied` where the embedding has not as many numbers as a layer units.
  SequenceDecoder(std::shared_ptr<nn::Embedding> embedder, const SequenceDecoderOptions& options);

  SequenceMemory memory(const Tensor& values, const Tensor& lengths);
  // Words [T,R], R being W rows of each of the N sentences that the memory has, side by side; T or W is 1.
  Advanced operator()(const Tensor& words, const SequenceMemory& memory, const State& state = {});
  // Logits [T,R,V].
  Tensor scores(const Tensor& hidden);
  std::string describe() const override;

 private:
  class AttentiveLayer;
  Advanced run(const Tensor& words, const SequenceMemory& memory, const State& state);

  SequenceDecoderOptions options_;
  std::shared_ptr<nn::Embedding> embedder_;
  std::shared_ptr<AttentiveLayer> first_;
  std::vector<std::shared_ptr<nn::Recurrent>> later_;
  std::shared_ptr<nn::Linear> classifier_;
};

}  // namespace tandem::models
