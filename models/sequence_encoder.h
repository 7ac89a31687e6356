// The reading half of an encoder–decoder: what every word of a sentence means among the others.
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/layers/recurrent.h"

namespace tandem::models {

struct SequenceEncoderOptions {
  Index embedding = 1024, units = 1024, layers = 4;
  double dropout = 0.2;  // of what goes into each layer
  bool recompute = false;
};

// Words [S,N] → [S,N,outputs()]: a layer of LSTM cells in both directions and others above it, from the third
// on with a residual connection. Parameters are called as in NVIDIA's GNMT v2: embedder.weight,
// rnn_layers.0.weight_ih_l0 and …_reverse, rnn_layers.1.weight_ih_l0, …
class SequenceEncoder final : public nn::Module {
 public:
  // Throws UserError for sizes below 1.
  SequenceEncoder(std::shared_ptr<nn::Embedding> embedder, const SequenceEncoderOptions& options);

  using Module::operator();
  // All of the words.
  Tensor forward(const Tensor& words) override;
  // `lengths`: words of each sentence, i64 [N] in host memory, or absent. What comes behind may be any word;
  // it takes no part and gives zeros.
  Tensor operator()(const Tensor& words, const Tensor& lengths);
  std::string describe() const override;

  // Of a single layer twice the units, else as many.
  Index outputs() const;

 private:
  Tensor run(const Tensor& words, const Tensor& lengths);

  SequenceEncoderOptions options_;
  std::shared_ptr<nn::Embedding> embedder_;
  std::vector<std::shared_ptr<nn::Recurrent>> layers_;
};

}  // namespace tandem::models
