// Recurrent classifiers of texts: the words of a text through layers of cells, what they make of it through a
// linear layer.
#pragma once

#include "models/text_encoder.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent.h"
#include "nn/ports.h"

namespace tandem::models {

// What stands for a text: the mean of the last layer's outputs over its words, or its states after the last
// word, in both directions.
enum class TextPooling : std::uint8_t { mean, last };

struct TextClassifierOptions {
  Index vocabulary = 10000, classes = 2;
  Index embedding = 128, units = 128, layers = 1;
  RnnCell cell = RnnCell::lstm;
  bool bidirectional = true;
  TextPooling pooling = TextPooling::mean;
  double dropout = 0.3;  // of what goes into the cells, from layer to layer, and into the linear layer
  double init = 0.0;     // above 0: rows of the embedding start uniform in ±init; 0: normal(0, 1)
  bool recompute = false;
};

// Parameters: embedding.weight, rnn.weight_ih_l0, …, classifier.weight, classifier.bias. By its ports it
// takes "words" i64 [T,N], each text's at the front, and "lengths" i64 [N], and gives "logits" [N,classes].
class TextClassifier final : public TextEncoder, public nn::Ports, public HasWordTables {
 public:
  // Throws UserError for sizes below 1.
  explicit TextClassifier(const TextClassifierOptions& options);

  // Throws UserError for other lengths than i64 in host memory, and for a text without words.
  Tensor encode(const Tensor& words, const Tensor& lengths) override;
  Tensor scores(const Tensor& encoded) override;
  Index classes() const override { return options_.classes; }
  TensorList forward_outputs(const TensorList& inputs) override;
  std::string describe() const override;
  std::vector<nn::Port> inputs() const override;
  std::vector<std::string> outputs() const override { return {"logits"}; }
  // Of the words, vocabulary 0, and the classes, vocabulary 1.
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
