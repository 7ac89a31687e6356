#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kTransformer = "transformer";

// Below "encoder.layers.i" and "decoder.layers.i".
nn::BlockNames pytorch_names(bool decoder) {
  return {.norm1 = "norm1",
          .attention = "self_attn",
          .norm2 = decoder ? "norm3" : "norm2",
          .inner = "linear1",
          .outer = "linear2",
          .cross_norm = "norm2",
          .cross = "multihead_attn"};
}

void require_words(const char* what, const Tensor& words) {
  require(words.defined() && words.rank() == 2, kTransformer, "expects {} words [T,N], got {}", what,
          to_string(words));
}

}  // namespace

Transformer::Transformer(const TransformerOptions& options) : options_(options) {
  require(options.encoder_layers > 0 && options.decoder_layers > 0 && options.width > 0 && options.inner > 0,
          kTransformer, "layers, width and inner must be positive, got {} and {}, {} and {}",
          options.encoder_layers, options.decoder_layers, options.width, options.inner);
  const auto [source, target] = make_embeddings(
      kTransformer, {options.source_words, options.target_words, options.shared}, options.width);
  encoder_ = make_stack("encoder", source, options.encoder_layers);
  decoder_ = make_stack("decoder", target, options.decoder_layers);
  positions_ = add_child("positions", std::make_shared<nn::SinusoidalPositions>(options.width));
  generator_ =
      add_child("generator", options.tied ? std::make_shared<nn::Linear>(target->weight())
                                          : std::make_shared<nn::Linear>(options.width, options.target_words,
                                                                         nn::LinearOptions{.bias = false}));
  draw();
}

Transformer::Stack Transformer::make_stack(const std::string& name,
                                           const std::shared_ptr<nn::Embedding>& embedding, Index layers) {
  const bool decoder = name == "decoder";
  const nn::TransformerBlockOptions of_blocks{.width = options_.width,
                                              .heads = options_.heads,
                                              .inner = options_.inner,
                                              .norm_first = options_.norm_first,
                                              .activation = options_.activation == TransformerActivation::relu
                                                                ? nn::BlockActivation::relu
                                                                : nn::BlockActivation::gelu,
                                              .causal = decoder,
                                              .cross = decoder,
                                              .attention_dropout = options_.dropout,
                                              .dropout = options_.dropout,
                                              .recompute = options_.recompute};
  Stack stack;
  stack.embedding = add_child_at(name + ".embedding", embedding);
  for (Index i = 0; i < layers; ++i)
    stack.blocks.push_back(
        add_child_at(fmt::format("{}.layers.{}", name, i),
                     std::make_shared<nn::TransformerBlock>(of_blocks, pytorch_names(decoder))));
  stack.norm = add_child_at(name + ".norm", nn::make_norm(nn::BlockNorm::layer, options_.width, 1e-5));
  return stack;
}

void Transformer::draw() {
  const double of_embeddings = 1.0 / std::sqrt(static_cast<double>(options_.width));
  for (const Parameter& parameter : parameters()) {
    const std::string& name = parameter.name();
    if (name.ends_with("embedding.weight")) {
      nn::init::normal(parameter.value(), 0.0, of_embeddings);
    } else if (parameter.value().rank() > 1) {
      nn::init::xavier_uniform(parameter.value());
    } else if (name.ends_with("bias")) {
      nn::init::zeros(parameter.value());
    }
  }
}

Tensor Transformer::embedded(const Stack& stack, const Tensor& words, Index first) {
  const Tensor tokens = (*stack.embedding)(transpose(words, 0, 1));
  // Sums of branches are FP32.
  const Tensor x = cast(tokens, wide_of(tokens.dtype())) * std::sqrt(static_cast<double>(options_.width));
  return dropout((*positions_)(x, first), options_.dropout, training());
}

SequenceToSequence::Memory Transformer::encode(const Tensor& source, const Tensor& lengths) {
  require_words("source", source);
  nn::Residual stream{embedded(encoder_, source)};
  for (const auto& block : encoder_.blocks) stream = (*block)(stream, {.lengths = lengths});
  const Tensor encoded =
      nn::normed(*encoder_.norm, stream, {.dropout = options_.dropout, .training = training()}).normed;
  Memory memory{.values = {}, .lengths = lengths};
  for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
    const nn::AttentionMemory own = decoder_.blocks[i]->memory(encoded, lengths);
    memory.values.set(fmt::format("{}.keys", i), reshape(own.keys, own.keys.shape().inserted(0, 1)));
    memory.values.set(fmt::format("{}.values", i), reshape(own.values, own.values.shape().inserted(0, 1)));
  }
  return memory;
}

Tensor Transformer::decoded(const Tensor& words, const Memory& memory, nn::KeyValueCache* cache) {
  const Index first = cache ? cache->positions().front() : 0;
  nn::Residual stream{embedded(decoder_, words, first)};
  nn::SelfAttentionCall call{.cache = cache};
  for (const auto& block : decoder_.blocks) {
    const auto of_layer = [&](const char* what) {
      const Tensor found = memory.values.find(fmt::format("{}.{}", call.layer, what));
      ensure(found.defined(), kTransformer, "the memory has no {} of layer {}", what, call.layer);
      return reshape(found, found.shape().without(0));
    };
    stream = (*block)(stream, call, {of_layer("keys"), of_layer("values"), memory.lengths});
    ++call.layer;
  }
  const Tensor hidden =
      nn::normed(*decoder_.norm, stream, {.dropout = options_.dropout, .training = training()}).normed;
  return transpose(hidden, 0, 1);
}

Tensor Transformer::read(const Tensor& target, const Memory& memory) {
  require_words("target", target);
  return decoded(target, memory, nullptr);
}

SequenceToSequence::Advanced Transformer::advance(const Tensor& words, const Memory& memory,
                                                  const State& state) {
  require_words("target", words);
  const NoGrad no_grad;
  const Index rows = words.size(1);
  Index before = 0;
  if (!state.empty()) {
    const Tensor position = state.find("position");
    require(position.defined() && position.numel() == rows, kTransformer, "the state is not of {} texts",
            rows);
    before = position.to_vector<std::int64_t>().front();
  }
  nn::KeyValueCache cache(options_.decoder_layers, std::vector<Index>(static_cast<std::size_t>(rows), before),
                          {state.find("keys"), state.find("values")});
  Advanced advanced{.hidden = decoded(words, memory, &cache), .state = {}};
  const std::vector<std::int64_t> position(static_cast<std::size_t>(rows), before + words.size(0));
  advanced.state.set("position", Tensor::from(position, {1, rows}));
  advanced.state.set("keys", cache.memory().keys);
  advanced.state.set("values", cache.memory().values);
  return advanced;
}

std::string Transformer::describe() const {
  return fmt::format("Transformer({} → {} words, {} + {} layers of {}, {}-norm{}{})", options_.source_words,
                     options_.target_words, options_.encoder_layers, options_.decoder_layers, options_.width,
                     options_.norm_first ? "pre" : "post", options_.shared ? ", one table" : "",
                     options_.tied ? ", tied" : "");
}

}  // namespace tandem::models
