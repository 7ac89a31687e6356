// Recurrent text classifier: embedding, recurrent layers, pooling, linear layer.
#pragma once

#include "models/text_encoder.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent.h"
#include "nn/ports.h"

namespace tandem::models {

// Pooling of a text: the mean of the last layer's outputs over its words, or its states after the last word,
// in both directions.
enum class TextPooling : std::uint8_t { mean, last };

struct TextClassifierOptions {
  Index vocabulary = 10000, classes = 2;
  Index embedding = 128, units = 128, layers = 1;
  RnnCell cell = RnnCell::lstm;
  bool bidirectional = true;
  TextPooling pooling = TextPooling::mean;
  double dropout = 0.3;  // on the input, between layers, and before the linear layer
  double init = 0.0;     // above 0: the embedding starts uniform in ±init; 0: normal(0, 1)
  bool recompute = false;
};

// Parameters: embedding.weight, rnn.weight_ih_l0, …, classifier.weight, classifier.bias. Ports: inputs
// "words" i64 [T,N], padded at the end, and "lengths" i64 [N]; output "logits" [N,classes].
class TextClassifier final : public TextEncoder, public nn::Ports, public HasWordTables {
 public:
  // Throws UserError for sizes below 1.
  explicit TextClassifier(const TextClassifierOptions& options);

  // Throws UserError unless lengths are i64 in host memory, and for an empty text.
  Tensor encode(const Tensor& words, const Tensor& lengths) override;
  Tensor scores(const Tensor& encoded) override;
  Index classes() const override { return options_.classes; }
  TensorList forward_outputs(const TensorList& inputs) override;
  std::string describe() const override;
  std::vector<nn::Port> inputs() const override;
  std::vector<std::string> outputs() const override { return {"logits"}; }
  // Words are vocabulary 0, classes vocabulary 1.
  std::vector<WordTable> word_tables() const override {
    return {{"embedding.weight", 0}, {"classifier.weight", 1}, {"classifier.bias", 1}};
  }

  const TextClassifierOptions& options() const { return options_; }

 private:
  TextClassifierOptions options_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Recurrent> rnn_;
  std::shared_ptr<nn::Linear> classifier_;
};

}  // namespace tandem::models
