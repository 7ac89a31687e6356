#include "models/encoder_decoder.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kEncoderDecoder = "encoder_decoder";

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
  require(options.source_words > 0 && options.target_words > 0, kEncoderDecoder,
          "vocabularies have words, got {} and {}", options.source_words, options.target_words);
  require(!options.shared || options.source_words == options.target_words, kEncoderDecoder,
          "a shared table is of one vocabulary, got {} words of the source and {} of the target",
          options.source_words, options.target_words);
  const auto source = std::make_shared<nn::Embedding>(options.source_words, options.embedding);
  const auto target =
      options.shared ? source : std::make_shared<nn::Embedding>(options.target_words, options.embedding);
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

Tensor EncoderDecoder::forward(const Tensor& words) { return run(words, {}, words); }

Tensor EncoderDecoder::operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return observed([&] { return run(source, lengths, target); });
}

Tensor EncoderDecoder::run(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return (*decoder_)(target, encode(source, lengths)).logits;
}

SequenceMemory EncoderDecoder::encode(const Tensor& source, const Tensor& lengths) {
  return decoder_->memory((*encoder_)(source, lengths), lengths);
}

EncoderDecoder::Step EncoderDecoder::decode_step(const Tensor& tokens, const SequenceMemory& memory,
                                                 const DecoderState& state) {
  const Index rows = tokens.numel();
  const SequenceDecoder::Result result = (*decoder_)(reshape(tokens, {1, rows}), memory, state);
  const auto of_rows = [&](const Tensor& x) { return cast(reshape(x, {rows, x.size(-1)}), DType::f32); };
  return {log_softmax(of_rows(result.logits)), of_rows(result.attention), result.state};
}

std::string EncoderDecoder::describe() const {
  return fmt::format("EncoderDecoder({} → {} words, {} numbers each, {} units{})", options_.source_words,
                     options_.target_words, options_.embedding, options_.units,
                     options_.shared ? ", one table" : "");
}

}  // namespace tandem::models
