// Recurrent language models (Zaremba, Sutskever and Vinyals 2014).
#pragma once

#include <optional>

#include "models/causal_model.h"
#include "models/word_tables.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent.h"
#include "nn/ports.h"

namespace tandem::models {

struct LanguageModelOptions {
  Index vocabulary = 10000;
  Index embedding = 650, units = 650, layers = 2;
  RnnCell cell = RnnCell::lstm;
  Index projection = 0;  // lstm only: outputs of a layer; 0: none
  double dropout = 0.5;  // on the input, between layers and on the output; not on recurrent connections
  bool tied = false;     // output weights are the embedding table
  double init = 0.0;     // above 0: weights start uniform in ±init, biases at 0; 0: the layers' own
                         // initialisation
  bool recompute = false;
  WordSoftmax softmax;
  // AWD-LSTM (Merity, Keskar and Socher, "Regularizing and optimizing LSTM language models", ICLR 2018).
  std::optional<double> input_dropout{}, output_dropout{};  // on input and output; default: dropout
  bool locked_dropout = false;                              // one mask for all steps of a batch
  double word_dropout = 0.0;    // of whole words of the vocabulary, the same in the whole batch
  double weight_dropout = 0.0;  // of weight_hh of every layer (DropConnect)
  Index last_units = 0;         // of the last layer; 0: units
};

// Parameters are named as in PyTorch's word_language_model: encoder.weight, rnn.weight_ih_l0, …,
// decoder.weight (with `tied` the same parameter), decoder.bias; with an adaptive softmax
// decoder.head.weight, decoder.tail.0.0.weight, … (nn/layers/adaptive_softmax.h). Ports: inputs "words" i64
// [T,N] and the state "h_0" and, for lstm, "c_0" [L,N,H]; outputs "logits" [T,N,V], "h_n" and "c_n".
class LanguageModel final : public CausalModel, public nn::Ports, public HasWordTables {
 public:
  // Throws UserError for sizes below 1, with `tied` for different sizes of cell outputs and embedding, and
  // OptionError for a softmax that does not fit the other options.
  explicit LanguageModel(const LanguageModelOptions& options);

  // Log-probabilities with an adaptive softmax.
  Tensor scores(const Tensor& hidden) override { return (*decoder_)(hidden); }
  Tensor loss(const Tensor& hidden, const Targets& targets) override;
  Figures figures(const Tensor& hidden, const Tensor& targets) override;
  std::optional<SampledSoftmaxOptions> candidates() const override;
  bool sees_all_words() const override { return !adaptive_ && !sampled_; }

  TensorList forward_outputs(const TensorList& inputs) override;
  std::string describe() const override;
  std::vector<nn::Port> inputs() const override;
  std::vector<std::string> outputs() const override;
  // All of vocabulary 0.
  std::vector<WordTable> word_tables() const override;

  const LanguageModelOptions& options() const { return options_; }

 private:
  // The state is "h" and, for lstm, "c" [L,N,H].
  Advanced read(const Tensor& words, const State& state, const Tensor& lengths) override;
  Tensor embedded(const Tensor& words) const;
  Tensor drop(const Tensor& x, const std::optional<double>& p) const;
  nn::ModulePtr make_decoder();
  void draw();

  LanguageModelOptions options_;
  std::shared_ptr<nn::Embedding> encoder_;
  std::shared_ptr<nn::Recurrent> rnn_;
  std::shared_ptr<nn::AdaptiveSoftmax> adaptive_;
  std::shared_ptr<nn::SampledSoftmax> sampled_;
  nn::ModulePtr decoder_;
};

}  // namespace tandem::models
