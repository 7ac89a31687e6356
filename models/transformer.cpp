#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
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

Tensor Transformer::scaled(const Stack& stack, const Tensor& tokens) {
  const Tensor x = (*stack.embedding)(tokens);
  // Sums of branches are FP32.
  return cast(x, wide_of(x.dtype())) * std::sqrt(static_cast<double>(options_.width));
}

Tensor Transformer::embedded(const Stack& stack, const Tensor& words, Index first) {
  const Tensor x = scaled(stack, transpose(words, 0, 1));
  return dropout((*positions_)(x, first), options_.dropout, training());
}

Tensor Transformer::hidden(const Stack& stack, const Tensor& x, nn::SelfAttentionCall call,
                           const std::vector<nn::AttentionMemory>& memory) {
  nn::Residual stream{x};
  for (const auto& block : stack.blocks) {
    stream =
        (*block)(stream, call,
                 memory.empty() ? nn::AttentionMemory() : memory.at(static_cast<std::size_t>(call.layer)));
    ++call.layer;
  }
  return nn::normed(*stack.norm, stream, {.dropout = options_.dropout, .training = training()}).normed;
}

SequenceToSequence::Memory Transformer::encode(const Tensor& source, const Tensor& lengths) {
  require_words("source", source);
  const Tensor encoded = hidden(encoder_, embedded(encoder_, source), {.lengths = lengths});
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
  std::vector<nn::AttentionMemory> of_layers;
  for (Index layer = 0; layer < options_.decoder_layers; ++layer) {
    const auto of_layer = [&](const char* what) {
      const Tensor found = memory.values.find(fmt::format("{}.{}", layer, what));
      ensure(found.defined(), kTransformer, "the memory has no {} of layer {}", what, layer);
      return reshape(found, found.shape().without(0));
    };
    of_layers.push_back({of_layer("keys"), of_layer("values"), memory.lengths});
  }
  const Tensor x = embedded(decoder_, words, first);
  return transpose(hidden(decoder_, x, {.cache = cache}, of_layers), 0, 1);
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

// Tables of positions are leaves, so that ops on them are recorded.
TensorList Transformer::encoder_part(const TensorList& inputs, Index positions) {
  const Tensor &tokens = inputs.at(0), &lengths = inputs.at(1);
  const Tensor words = scaled(encoder_, tokens);
  const Tensor x = words + slice(leaf(positions_->table(positions)), 0, 0, tokens.size(1));
  const Tensor encoded = hidden(encoder_, x, {.lengths = lengths});
  TensorList outputs;
  for (const auto& block : decoder_.blocks) {
    const nn::AttentionMemory own = block->memory(encoded, lengths);
    for (const Tensor& each : {own.keys, own.values})
      outputs.push_back(nn::heads_apart(each, options_.heads));
  }
  return outputs;
}

TensorList Transformer::decoder_part(const TensorList& inputs, Index positions) {
  const std::size_t layers = decoder_.blocks.size();
  ensure(inputs.size() == 3 + 4 * layers, kTransformer, "the decoder takes {} tensors, got {}",
         3 + 4 * layers, inputs.size());
  std::vector<nn::AttentionMemory> memory;
  std::vector<nn::PastKeys> past;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::size_t source = 3 + 2 * i, before = source + 2 * layers;
    memory.push_back({inputs[source], inputs[source + 1], inputs[2]});
    past.push_back({inputs[before], inputs[before + 1]});
  }
  const Tensor words = scaled(decoder_, inputs[0]);
  const Tensor x = words + embedding(leaf(positions_->table(positions)), inputs[1]);
  TensorList outputs{scores(hidden(decoder_, x, {.past = &past}, memory))};
  for (const nn::PastKeys& each : past) outputs.insert(outputs.end(), {each.keys, each.values});
  return outputs;
}

std::vector<nn::Part> Transformer::parts(Index longest) {
  using nn::Port;
  const Index layers = options_.decoder_layers, positions = positions_->table(longest).size(0);
  const Port lengths{"lengths", {Port::kRows}, DType::i64};
  nn::Part encoder{
      .name = "encoder",
      .inputs = {{"input_ids", {Port::kRows, Port::kSource}, DType::i64}, lengths},
      .outputs = nn::key_value_names("encoder", layers),
      .forward = [this, positions](const TensorList& inputs) { return encoder_part(inputs, positions); },
      .longest = positions};
  nn::Part decoder{
      .name = "decoder",
      .inputs = {},
      .outputs = nn::key_value_names("present", layers),
      .forward = [this, positions](const TensorList& inputs) { return decoder_part(inputs, positions); },
      .longest = positions};
  for (const char* const name : {"input_ids", "position_ids"})
    decoder.inputs.push_back({name, {Port::kRows, Port::kSteps}, DType::i64});
  decoder.inputs.push_back(lengths);
  for (const auto& [prefix, extent] :
       {std::pair{"encoder", Port::kSource}, std::pair{"past_key_values", Port::kPast}})
    for (const std::string& name : nn::key_value_names(prefix, layers))
      decoder.inputs.push_back(
          {name, {Port::kRows, options_.heads, extent, options_.width / options_.heads}});
  decoder.outputs.insert(decoder.outputs.begin(), "logits");
  return {encoder, decoder};
}

std::string Transformer::describe() const {
  return fmt::format("Transformer({} → {} words, {} + {} layers of {}, {}-norm{}{})", options_.source_words,
                     options_.target_words, options_.encoder_layers, options_.decoder_layers, options_.width,
                     options_.norm_first ? "pre" : "post", options_.shared ? ", one table" : "",
                     options_.tied ? ", tied" : "");
}

}  // namespace tandem::models
