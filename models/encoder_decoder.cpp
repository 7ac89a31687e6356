#include "models/encoder_decoder.h"

#include <fmt/format.h>

#include "nn/init.h"

namespace tandem::models {

namespace {

SequenceEncoderOptions encoder_options(const EncoderDecoderOptions& o) {
  return {.embedding = o.embedding,
          .units = o.units,
          .layers = o.encoder_layers,
          .dropout = o.dropout,
          .recompute = o.recompute};
}

SequenceDecoderOptions decoder_options(const EncoderDecoderOptions& o, Index values) {
  return {.words = o.target_words,
          .embedding = o.embedding,
          .units = o.units,
          .layers = o.decoder_layers,
          .values = values,
          .attention = o.attention,
          .dropout = o.dropout,
          .tied = o.tied,
          .recompute = o.recompute};
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderOptions& options) : options_(options) {
  const auto [source, target] = make_embeddings(
      "encoder_decoder", {options.source_words, options.target_words, options.shared}, options.embedding);
  encoder_ = add_child("encoder", std::make_shared<SequenceEncoder>(source, encoder_options(options)));
  decoder_ = add_child(
      "decoder", std::make_shared<SequenceDecoder>(target, decoder_options(options, encoder_->outputs())));
  draw();
}

void EncoderDecoder::draw() {
  if (options_.init == 0.0) return;
  for (const Parameter& parameter : parameters()) {
    const std::string& name = parameter.name();
    if (name.find(".normalize_") != std::string::npos) continue;
    if (name.find(".bias_hh_") != std::string::npos) {
      nn::init::zeros(parameter.value());
    } else {
      nn::init::uniform(parameter.value(), -options_.init, options_.init);
    }
  }
}

SequenceToSequence::Memory EncoderDecoder::encode(const Tensor& source, const Tensor& lengths) {
  const SequenceMemory read = decoder_->memory((*encoder_)(source, lengths), lengths);
  Memory memory{.values = {}, .lengths = lengths};
  memory.values.set("values", read.values);
  memory.values.set("keys", read.keys);
  return memory;
}

SequenceToSequence::Advanced EncoderDecoder::advance(const Tensor& words, const Memory& memory,
                                                     const State& state) {
  return (*decoder_)(words, {memory.values.find("values"), memory.values.find("keys"), memory.lengths},
                     state);
}

std::string EncoderDecoder::describe() const {
  return fmt::format("EncoderDecoder({} → {} words, {} numbers each, {} units{})", options_.source_words,
                     options_.target_words, options_.embedding, options_.units,
                     options_.shared ? ", one table" : "");
}

}  // namespace tandem::models
