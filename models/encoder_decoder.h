// Encoder–decoder with attention: a sentence from another one. GNMT v2 (Wu et al., "Google's neural machine
// translation system", 2016, as NVIDIA's DeepLearningExamples trains it).
#pragma once

#include "models/sequence_decoder.h"
#include "models/sequence_encoder.h"
#include "models/word_tables.h"

namespace tandem::models {

struct EncoderDecoderOptions {
  Index source_words = 32000, target_words = 32000;
  Index embedding = 1024, units = 1024, encoder_layers = 4, decoder_layers = 4;
  AttentionKind attention = AttentionKind::bahdanau_normalised;
  double dropout = 0.2;  // of what goes into each layer
  bool shared = false;   // one table for the words of both sides
  bool tied = false;     // the output's weights are the table of the words to write
  double init = 0.0;     // above 0: weights start uniform in ±init; 0: the layers' own start
  bool recompute = false;
};

// Parameters are called encoder.… (SequenceEncoder) and decoder.… (SequenceDecoder), with `shared` the table
// encoder.embedder.weight and decoder.embedder.weight. Started with `init`, biases b_hh of cells are 0, and g
// and b of normalised attention 1/√units and 0.
class EncoderDecoder final : public nn::Module, public HasWordTables {
 public:
  struct Step {
    Tensor log_probabilities;  // f32 [R,V] of the next word
    Tensor attention;          // f32 [R,S] of this step
    DecoderState state;
  };

  // Throws UserError for sizes below 1, with `shared` where there are not as many words on both sides, and as
  // SequenceDecoder.
  explicit EncoderDecoder(const EncoderDecoderOptions& options);

  // Words [S,N] as the sentence and as what is written: the form that summaries want.
  Tensor forward(const Tensor& words) override;
  // Scores [T,N,V] of the word behind each of `target` [T,N], of which the first is the begin; source [S,N]
  // with `lengths` words of each sentence, i64 [N] in host memory, or absent.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target);

  // To write word by word: memory of the sentences once, then a step for each word. Rows are numbered
  // sentence·W + hypothesis, W being 1 or more; whoever drops and multiplies hypotheses selects the state's
  // rows. An empty state is that before the first word.
  SequenceMemory encode(const Tensor& source, const Tensor& lengths);
  Step decode_step(const Tensor& tokens, const SequenceMemory& memory, const DecoderState& state);
  std::string describe() const override;
  // Of the pieces to read, vocabulary 0, and those to write, vocabulary 1.
  std::vector<WordTable> word_tables() const override {
    return {{"encoder.embedder.weight", 0},
            {"decoder.embedder.weight", 1},
            {"decoder.classifier.classifier.weight", 1},
            {"decoder.classifier.classifier.bias", 1}};
  }

  const EncoderDecoderOptions& options() const { return options_; }

 private:
  Tensor run(const Tensor& source, const Tensor& lengths, const Tensor& target);
  void draw();

  EncoderDecoderOptions options_;
  std::shared_ptr<SequenceEncoder> encoder_;
  std::shared_ptr<SequenceDecoder> decoder_;
};

}  // namespace tandem::models
