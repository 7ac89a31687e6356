// SequenceDecoder: the decoder of an encoder–decoder with attention, which predicts the next word of a
// sentence.
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
  Index values = 1024;  // encoder outputs per word
  AttentionKind attention = AttentionKind::bahdanau_normalised;
  double dropout = 0.2;  // on the input of each layer
  bool tied = false;     // output weights are the embedding table
  bool recompute = false;
};

// The first layer reads the embedding; its output queries the encoder (SequenceAttention). Every later layer
// reads the resulting context beside the output of the layer before. Layers from the third on have a residual
// connection. Since only the first layer's output queries, all steps of a layer are computed in one call when
// the words are known.
//
// Parameters are named as in NVIDIA's GNMT v2: embedder.weight, att_rnn.rnn.weight_ih_l0, …,
// att_rnn.attn.linear_q.weight, …, rnn_layers.0.weight_ih_l0, …, classifier.classifier.weight and …bias.
class SequenceDecoder final : public nn::Module {
 public:
  // `hidden` is the output of the last layer; the state is "0.h", "0.c", "1.h", …, [1,R,H] of each layer.
  using Advanced = SequenceToSequence::Advanced;

  // Throws UserError for sizes below 1, for less than two layers, which could not use the context, and with
  // `tied` if the embedding size differs from the units.
  SequenceDecoder(std::shared_ptr<nn::Embedding> embedder, const SequenceDecoderOptions& options);

  SequenceMemory memory(const Tensor& values, const Tensor& lengths);
  // Words [T,R] with R = W adjacent rows for each of the memory's N sentences; T or W is 1.
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
