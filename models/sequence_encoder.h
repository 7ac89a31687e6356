// SequenceEncoder: the encoder of an encoder–decoder.
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/layers/recurrent.h"

namespace tandem::models {

struct SequenceEncoderOptions {
  Index embedding = 1024, units = 1024, layers = 4;
  double dropout = 0.2;  // on the input of each layer
  bool recompute = false;
};

// Words [S,N] → [S,N,outputs()]: a bidirectional LSTM layer and unidirectional ones above it, from the third
// on with a residual connection. Parameters are named as in NVIDIA's GNMT v2: embedder.weight,
// rnn_layers.0.weight_ih_l0 and …_reverse, rnn_layers.1.weight_ih_l0, …
class SequenceEncoder final : public nn::Module {
 public:
  // Throws UserError for sizes below 1.
  SequenceEncoder(std::shared_ptr<nn::Embedding> embedder, const SequenceEncoderOptions& options);

  using Module::operator();
  // Uses all words.
  Tensor forward(const Tensor& words) override;
  // `lengths`: words of each sentence, i64 [N] in host memory, or absent. Words beyond a length are ignored;
  // their outputs are zero.
  Tensor operator()(const Tensor& words, const Tensor& lengths);
  std::string describe() const override;

  // Twice the units for a single layer, else the units.
  Index outputs() const;

 private:
  Tensor run(const Tensor& words, const Tensor& lengths);

  SequenceEncoderOptions options_;
  std::shared_ptr<nn::Embedding> embedder_;
  std::vector<std::shared_ptr<nn::Recurrent>> layers_;
};

}  // namespace tandem::models
