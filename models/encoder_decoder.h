// Encoder–decoder with attention for translation: GNMT v2 (Wu et al., "Google's neural machine translation
// system", 2016, as NVIDIA's DeepLearningExamples trains it).
#pragma once

#include "models/sequence_decoder.h"
#include "models/sequence_encoder.h"
#include "models/sequence_to_sequence.h"
#include "models/word_tables.h"

namespace tandem::models {

struct EncoderDecoderOptions {
  Index source_words = 32000, target_words = 32000;
  Index embedding = 1024, units = 1024, encoder_layers = 4, decoder_layers = 4;
  AttentionKind attention = AttentionKind::bahdanau_normalised;
  double dropout = 0.2;  // on the input of each layer
  bool shared = false;   // one embedding table for both sides
  bool tied = false;     // output weights are the target embedding
  double init = 0.0;     // above 0: weights start uniform in ±init; 0: the layers' own initialisation
  bool recompute = false;
};

// Parameters: encoder.… (SequenceEncoder) and decoder.… (SequenceDecoder); with `shared`,
// encoder.embedder.weight and decoder.embedder.weight are one table. With `init`, biases b_hh of cells start
// at 0, and g and b of normalised attention at 1/√units and 0.
class EncoderDecoder final : public SequenceToSequence, public HasWordTables {
 public:
  // Throws UserError for sizes below 1, with `shared` for different numbers of words, and as SequenceDecoder.
  explicit EncoderDecoder(const EncoderDecoderOptions& options);

  // "values" and "keys" (SequenceMemory).
  Memory encode(const Tensor& source, const Tensor& lengths) override;
  // The state is SequenceDecoder's.
  Advanced advance(const Tensor& words, const Memory& memory, const State& state) override;
  Tensor scores(const Tensor& hidden) override { return decoder_->scores(hidden); }
  std::string describe() const override;
  // Source words are vocabulary 0, target words vocabulary 1.
  std::vector<WordTable> word_tables() const override {
    return {{"encoder.embedder.weight", 0},
            {"decoder.embedder.weight", 1},
            {"decoder.classifier.classifier.weight", 1},
            {"decoder.classifier.classifier.bias", 1}};
  }

  const EncoderDecoderOptions& options() const { return options_; }

 private:
  void draw();

  EncoderDecoderOptions options_;
  std::shared_ptr<SequenceEncoder> encoder_;
  std::shared_ptr<SequenceDecoder> decoder_;
};

}  // namespace tandem::models
