// Recurrent language models: the next word from the words so far (Zaremba, Sutskever and Vinyals 2014).
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
  Index projection = 0;  // of lstm: outputs of a layer; 0: as many as units
  double dropout = 0.5;  // of what goes into the cells, from layer to layer, and out; not of what recurs
  bool tied = false;     // the output's weights are the embedding's table
  double init = 0.0;  // above 0: every weight starts uniform in ±init, biases at 0; 0: the layers' own start
  bool recompute = false;
  WordSoftmax softmax;
  // AWD-LSTM (Merity, Keskar and Socher, "Regularizing and optimizing LSTM language models", ICLR 2018).
  std::optional<double> input_dropout{},
      output_dropout{};         // of what goes in, and of what comes out, in place of dropout
  bool locked_dropout = false;  // one mask for all steps of a batch, from layer to layer, in and out
  double word_dropout = 0.0;    // of whole words of the vocabulary, the same in all of the batch
  double weight_dropout = 0.0;  // of weight_hh of every layer (DropConnect)
  Index last_units = 0;         // of the last layer; 0: as many as units
};

// Parameters are called as in PyTorch's word_language_model: encoder.weight, rnn.weight_ih_l0, …,
// decoder.weight (with `tied` the same parameter), decoder.bias; with an adaptive softmax
// decoder.head.weight, decoder.tail.0.0.weight, … (nn/layers/adaptive_softmax.h). By its ports it takes
// "words" i64 [T,N] and the state "h_0" and, of lstm, "c_0" [L,N,H], and gives "logits" [T,N,V], "h_n" and
// "c_n".
class LanguageModel final : public CausalModel, public nn::Ports, public HasWordTables {
 public:
  // Throws UserError for sizes below 1, with `tied` where the outputs of the cells are not as many as the
  // embedding has, and OptionError where the softmax does not fit the other options.
  explicit LanguageModel(const LanguageModelOptions& options);

  // Of an adaptive softmax log-probabilities.
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
  // The state is "h" and, of lstm, "c" [L,N,H].
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
