// BERT (Devlin et al. 2018): a Transformer encoder with heads for masked words, next sentences, classes and
// answers.
#pragma once

#include <memory>
#include <vector>

#include "models/foreign_names.h"
#include "models/span_model.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/transformer_block.h"
#include "nn/ports.h"

namespace tandem::models {

// GELU as in Hugging Face's and NVIDIA's weights, or its tanh approximation, as in google-research/bert.
enum class GeluKind : std::uint8_t { erf, tanh };

struct BertOptions {
  Index vocabulary = 30522;
  Index width = 768, layers = 12, heads = 12;
  Index inner = 0;      // width of the perceptrons; 0: 4·width
  Index context = 512;  // positions
  Index segments = 2;
  GeluKind gelu = GeluKind::erf;
  double dropout = 0.1;            // of embeddings, branches, and the classifier's input
  double attention_dropout = 0.1;  // of attention weights
  double eps = 1e-12;              // of layer norms
  bool masked_words = true;        // the head for masked words, tied to the word embeddings
  bool next_sentence = false;      // the head for pairs of texts
  Index classes = 0;               // of the classifier's head; 0: none
  bool spans = false;              // the head for answers
  nn::Recompute recompute = nn::Recompute::none;
};

// Parameters have the names of Hugging Face's BertForPreTraining, BertForSequenceClassification and
// BertForQuestionAnswering, except that the projections of queries, keys and values are one parameter:
// "bert.encoder.layer.0.attention.self.query_key_value.weight" [3·C,C]. The pooler exists with the head for
// pairs or the classifier. Weights start from a normal distribution with standard deviation 0.02, truncated
// at two deviations; biases at 0.
class Bert final : public SpanModel, public nn::Ports, public HasWordTables, public ReadsForeignFiles {
 public:
  // Throws UserError for sizes below 1, heads that do not divide the width, and without a head.
  explicit Bert(const BertOptions& options);

  Tensor word_scores(const Tensor& rows) override;
  Tensor next_scores(const Tensor& hidden) override;
  bool scores_next() const override { return options_.next_sentence; }
  Tensor span_scores(const Tensor& hidden) override;
  Index context() const override { return options_.context; }
  // Of the first token after the last layer: tanh of a linear layer, [N,C].
  Tensor pooled(const Tensor& hidden);

  Tensor encode(const Tensor& words, const Tensor& lengths) override;
  Tensor scores(const Tensor& encoded) override;
  Index classes() const override { return options_.classes; }

  // The first output of the ports for words [T,N] of full length.
  Tensor forward(const Tensor& words) override;
  // Inputs "input_ids" i64 [N,T], padded at the end, and "lengths" i64 [N]; output "logits": of the classes
  // [N,classes] if there are any, else of the words [N,T,V], or of pairs of texts [N,2]. For answers also the
  // input "token_type_ids" i64 [N,T], and the outputs "start_logits" and "end_logits" [N,T] instead.
  TensorList forward_outputs(const TensorList& inputs) override;
  std::vector<nn::Port> inputs() const override;
  std::vector<std::string> outputs() const override;
  std::optional<Index> longest_steps() const override { return options_.context; }

  std::string describe() const override;
  // Words are vocabulary 0, classes vocabulary 1.
  std::vector<WordTable> word_tables() const override;
  ForeignNames foreign_names(const safetensors::File& file) const override;

  const BertOptions& options() const { return options_; }

 private:
  Tensor read(const MaskedTexts& texts) override;
  // Logits of classes, else of masked words, else of pairs of texts.
  Tensor outcome(const Tensor& hidden);
  Tensor embedded(const MaskedTexts& texts);

  BertOptions options_;
  std::shared_ptr<nn::Embedding> words_, positions_, segments_;
  std::shared_ptr<nn::LayerNorm> norm_;
  std::vector<std::shared_ptr<nn::TransformerBlock>> layers_;
  std::shared_ptr<nn::Linear> pooler_, transform_, decoder_, next_, classifier_, spans_;
  std::shared_ptr<nn::LayerNorm> transform_norm_;
};

}  // namespace tandem::models
