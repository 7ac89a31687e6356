#include "models/bert.h"

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/published_files.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kBert = "bert";

// Below "bert.encoder.layer.i".
nn::BlockNames layer_names() {
  return {.norm1 = "attention.output.LayerNorm",
          .attention = "attention",
          .projections = {.weight = "self.query_key_value.weight",
                          .bias = "self.query_key_value.bias",
                          .out = "output.dense"},
          .norm2 = "output.LayerNorm",
          .inner = "intermediate.dense",
          .outer = "output.dense"};
}

// Lengths in host memory; the texts of a batch have at least one token.
void require_lengths(const Tensor& lengths) {
  if (!lengths.defined() || lengths.numel() == 0) return;
  require(lengths.device() == Device{} && lengths.dtype() == DType::i64, kBert,
          "lengths must be i64 in host memory, got {}", to_string(lengths));
  const std::int64_t* const first = lengths.data<std::int64_t>();
  const std::int64_t* const empty = std::find(first, first + lengths.numel(), 0);
  require(empty == first + lengths.numel(), kBert, "text {} of the batch has no token", empty - first);
}

}  // namespace

Bert::Bert(const BertOptions& options) : options_(options) {
  require(options.vocabulary > 0 && options.width > 0 && options.layers > 0 && options.context > 0 &&
              options.segments > 0,
          kBert, "needs words, a width, layers, positions and segments, got {}, {}, {}, {} and {}",
          options.vocabulary, options.width, options.layers, options.context, options.segments);
  require(options.masked_words || options.next_sentence || options.classes > 0 || options.spans, kBert,
          "needs a head: for masked words, pairs of texts, classes or answers");
  const Index width = options.width;
  const nn::NormOptions norm{.eps = options.eps};
  const auto embedding = [&](const char* name, Index count) {
    return add_child_at(std::string("bert.embeddings.") + name,
                        std::make_shared<nn::Embedding>(count, width));
  };
  words_ = embedding("word_embeddings", options.vocabulary);
  positions_ = embedding("position_embeddings", options.context);
  segments_ = embedding("token_type_embeddings", options.segments);
  norm_ = add_child_at("bert.embeddings.LayerNorm", std::make_shared<nn::LayerNorm>(width, norm));
  const nn::TransformerBlockOptions of_layers{.width = width,
                                              .heads = options.heads,
                                              .inner = options.inner,
                                              .norm_first = false,
                                              .activation = options.gelu == GeluKind::erf
                                                                ? nn::BlockActivation::gelu
                                                                : nn::BlockActivation::gelu_tanh,
                                              .eps = options.eps,
                                              .attention_dropout = options.attention_dropout,
                                              .dropout = options.dropout,
                                              .recompute = options.recompute};
  for (Index i = 0; i < options.layers; ++i)
    layers_.push_back(add_child_at(fmt::format("bert.encoder.layer.{}", i),
                                   std::make_shared<nn::TransformerBlock>(of_layers, layer_names())));
  if (options.next_sentence || options.classes > 0)
    pooler_ = add_child_at("bert.pooler.dense", std::make_shared<nn::Linear>(width, width));
  if (options.masked_words) {
    const Parameter bias =
        add_parameter_at("cls.predictions.bias", nn::constant_parameter({options.vocabulary}, 0.0));
    transform_ = add_child_at("cls.predictions.transform.dense", std::make_shared<nn::Linear>(width, width));
    transform_norm_ =
        add_child_at("cls.predictions.transform.LayerNorm", std::make_shared<nn::LayerNorm>(width, norm));
    decoder_ = add_child_at("cls.predictions.decoder", std::make_shared<nn::Linear>(words_->weight(), bias));
  }
  if (options.next_sentence)
    next_ = add_child_at("cls.seq_relationship", std::make_shared<nn::Linear>(width, 2));
  if (options.classes > 0)
    classifier_ = add_child("classifier", std::make_shared<nn::Linear>(width, options.classes));
  if (options.spans) spans_ = add_child("qa_outputs", std::make_shared<nn::Linear>(width, 2));
  for (const Parameter& parameter : parameters()) {
    const Tensor value = parameter.value();
    if (value.rank() == 2) nn::initialise(value, nn::WeightInit::truncated_normal);
    if (parameter.name().ends_with("bias")) nn::init::zeros(value);
  }
}

Tensor Bert::embedded(const MaskedTexts& texts) {
  const Index steps = texts.tokens.size(1);
  Tensor x = (*words_)(texts.tokens) + slice(positions_->weight().tensor(), 0, 0, steps);
  x = x + (texts.segments.defined() ? (*segments_)(texts.segments)
                                    : slice(segments_->weight().tensor(), 0, 0, 1));
  return dropout((*norm_)(x), options_.dropout, training());
}

Tensor Bert::read(const MaskedTexts& texts) {
  require(texts.tokens.rank() == 2, kBert, "expects tokens [N,T], got {}", to_string(texts.tokens));
  require(texts.tokens.size(1) <= options_.context, kBert,
          "a text of {} tokens, padding included, has more than the {} positions of the model; use shorter "
          "texts, or a model with a larger context",
          texts.tokens.size(1), options_.context);
  require_lengths(texts.lengths);
  nn::Residual stream{embedded(texts)};
  for (const auto& layer : layers_) stream = (*layer)(stream, {.lengths = texts.lengths});
  return stream.x;
}

Tensor Bert::pooled(const Tensor& hidden) {
  ensure(pooler_ != nullptr, kBert, "has no pooler");
  return tanh((*pooler_)(reshape(slice(hidden, 1, 0, 1), {hidden.size(0), hidden.size(2)})));
}

Tensor Bert::word_scores(const Tensor& rows) {
  require(decoder_ != nullptr, kBert, "has no head for masked words");
  const Tensor x = (*transform_)(rows);
  return (*decoder_)((*transform_norm_)(options_.gelu == GeluKind::erf ? gelu(x) : gelu(x, GeluForm::tanh)));
}

Tensor Bert::next_scores(const Tensor& hidden) {
  require(next_ != nullptr, kBert, "has no head for pairs of texts");
  return (*next_)(pooled(hidden));
}

Tensor Bert::span_scores(const Tensor& hidden) {
  require(spans_ != nullptr, kBert, "has no head for answers");
  return (*spans_)(hidden);
}

Tensor Bert::encode(const Tensor& words, const Tensor& lengths) {
  return pooled(hidden({.tokens = transpose(words, 0, 1), .lengths = lengths}));
}

Tensor Bert::scores(const Tensor& encoded) {
  require(classifier_ != nullptr, kBert, "has no classifier");
  return (*classifier_)(dropout(encoded, options_.dropout, training()));
}

Tensor Bert::outcome(const Tensor& hidden) {
  if (classifier_) return scores(pooled(hidden));
  return decoder_ ? word_scores(hidden) : next_scores(hidden);
}

Tensor Bert::forward(const Tensor& words) {
  TensorList arguments(inputs().size());
  arguments[0] = transpose(words, 0, 1);
  return forward_outputs(arguments)[0];
}

TensorList Bert::forward_outputs(const TensorList& inputs) {
  require(inputs.size() == this->inputs().size(), kBert, "takes {} tensors, got {}", this->inputs().size(),
          inputs.size());
  const Tensor x =
      hidden({.tokens = inputs[0], .segments = spans_ ? inputs[2] : Tensor(), .lengths = inputs[1]});
  if (!spans_) return {outcome(x)};
  TensorList ends = split(span_scores(x), {1, 1}, 2);
  for (Tensor& scores : ends) scores = reshape(scores, {x.size(0), x.size(1)});
  return ends;
}

std::vector<nn::Port> Bert::inputs() const {
  using nn::Port;
  std::vector<Port> ports{{"input_ids", {Port::kRows, Port::kSteps}, DType::i64},
                          {"lengths", {Port::kRows}, DType::i64}};
  if (spans_) ports.push_back({"token_type_ids", {Port::kRows, Port::kSteps}, DType::i64});
  return ports;
}

std::vector<std::string> Bert::outputs() const {
  if (spans_) return {"start_logits", "end_logits"};
  return {"logits"};
}

std::string Bert::describe() const {
  return fmt::format("Bert({} words, {} layers of {} features)", options_.vocabulary, options_.layers,
                     options_.width);
}

std::vector<WordTable> Bert::word_tables() const {
  std::vector<WordTable> tables{{"bert.embeddings.word_embeddings.weight", 0}};
  if (decoder_)
    for (const char* const name :
         {"cls.predictions.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"})
      tables.push_back({name, 0});
  if (classifier_)
    for (const char* const name : {"classifier.weight", "classifier.bias"}) tables.push_back({name, 1});
  return tables;
}

ForeignNames Bert::foreign_names(const safetensors::File& file) const { return bert_names(file); }

}  // namespace tandem::models
