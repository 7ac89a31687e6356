#include "models/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/pairs.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/published_files.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kGpt = "gpt";
constexpr double kGptDeviation = 0.02;  // of initial weights

const nn::BlockNames& gpt_names() {
  static const nn::BlockNames names{
      .norm1 = "ln_1",
      .attention = "attn",
      .projections = {.weight = "c_attn.weight", .bias = "c_attn.bias", .out = "c_proj"},
      .norm2 = "ln_2",
      .inner = "mlp.c_fc",
      .outer = "mlp.c_proj"};
  return names;
}

std::vector<std::int64_t> counted(Index count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return values;
}

bool all_equal(const std::vector<Index>& values) {
  return std::ranges::all_of(values, [&](Index value) { return value == values.front(); });
}

}  // namespace

Gpt::Gpt(const GptOptions& options) : options_(options) {
  require(options.vocabulary > 0 && options.layers > 0 && options.width > 0 && options.context > 0, kGpt,
          "vocabulary, layers, width and context must be positive, got {}, {}, {} and {}", options.vocabulary,
          options.layers, options.width, options.context);
  wte_ = add_child("wte", std::make_shared<nn::Embedding>(options.vocabulary, options.width));
  if (options.positions == GptPositions::learned) {
    wpe_ = add_child("wpe", std::make_shared<nn::Embedding>(options.context, options.width));
    positions_ = &add_constant("positions", Tensor::from(counted(options.context), {options.context}));
  } else if (options.positions == GptPositions::rotary) {
    require(options.heads > 0 && options.width % options.heads == 0, kGpt,
            "{} heads do not divide a width of {}", options.heads, options.width);
    rotary_ = &add_constant(
        "rotary", rotary_table(options.context, options.width / options.heads, options.rotary_theta));
  }
  const nn::TransformerBlockOptions block{.width = options.width,
                                          .heads = options.heads,
                                          .kv_heads = options.kv_heads,
                                          .inner = options.inner,
                                          .norm = options.norm,
                                          .activation = options.activation,
                                          .bias = options.bias,
                                          .causal = true,
                                          .eps = options.eps,
                                          .attention_dropout = options.dropout,
                                          .dropout = options.dropout,
                                          .wide_residual = options.residual == ResidualType::fp32,
                                          .recompute = options.recompute};
  for (Index i = 0; i < options.layers; ++i)
    blocks_.push_back(
        add_child_at(fmt::format("h.{}", i), std::make_shared<nn::TransformerBlock>(block, gpt_names())));
  ln_f_ = add_child("ln_f", nn::make_norm(options.norm, options.width, options.eps, options.bias));
  lm_head_ =
      add_child("lm_head", options.tied ? std::make_shared<nn::Linear>(wte_->weight())
                                        : std::make_shared<nn::Linear>(options.width, options.vocabulary,
                                                                       nn::LinearOptions{.bias = false}));
  draw();
}

// As GPT-2: branches are smaller, by the number of branches that are added up.
void Gpt::draw() {
  const double of_branches = kGptDeviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  for (const Parameter& parameter : parameters()) {
    const std::string& name = parameter.name();
    if (parameter.value().rank() > 1) {
      nn::init::normal(parameter.value(), 0.0, name.ends_with("c_proj.weight") ? of_branches : kGptDeviation);
    } else if (name.ends_with("bias")) {
      nn::init::zeros(parameter.value());
    }
  }
}

State Gpt::begin(Index texts) const {
  State state;
  state.set("position", Tensor::zeros({1, texts}, {.dtype = DType::i64}));
  return state;
}

void Gpt::require_fits(Index tokens) const {
  require(
      !is_bounded() || tokens <= options_.context, kGpt,
      "a text of {} tokens is longer than the context of {} learned positions; shorten it, or train with a "
      "larger model.context",
      tokens, options_.context);
}

Tensor Gpt::learned(const std::vector<Index>& first, Index count) const {
  if (all_equal(first)) return (*wpe_)(positions_->rows(first.front(), count));
  std::vector<std::int64_t> at;
  // A text at the end of the context has only padding here.
  for (const Index from : first) at.push_back(std::min(from, options_.context - 1));
  return (*wpe_)(Tensor::from(at, {static_cast<Index>(first.size()), 1}).to(positions_->device()));
}

void Gpt::rotate(nn::SelfAttentionCall& call, const std::vector<Index>& first, Index count) {
  const Index last = std::ranges::max(first) + count;
  const bool beyond = last > rotary_->size(0);
  if (beyond && (!longer_.defined() || last > longer_.size(0)))
    longer_ =
        rotary_table(2 * last, options_.width / options_.heads, options_.rotary_theta, rotary_->options());
  call.rotary_table = beyond ? longer_ : *rotary_;
  call.rotary.interleaved = options_.rotary_interleaved;
  call.rotary.first = first.front();
  if (all_equal(first)) return;
  std::vector<std::int64_t> positions;
  for (const Index from : first)
    for (Index t = 0; t < count; ++t) positions.push_back(from + t);
  call.rotary.positions =
      Tensor::from(positions, {static_cast<Index>(first.size()), count}).to(rotary_->device());
}

Tensor Gpt::loss(const Tensor& hidden, const Targets& targets) {
  // Measured with 2 threads on AMX, widths of 128 to 768, 512 and 2048 rows: with fewer words, separate
  // product and loss are faster (by up to 1.4 with 2,000); with more, the fused op takes 0.9 to 1.17 of their
  // time.
  constexpr Index kMany = 8000;
  if (options_.vocabulary < kMany) return CausalModel::loss(hidden, targets);
  if (targets.ready) targets.ready();
  return linear_cross_entropy(hidden, lm_head_->weight().tensor(), targets.words, {},
                              {.label_smoothing = targets.label_smoothing, .ignore_index = kNoTarget});
}

// tokens [N,T], of which row n stands at position first[n] and after.
Tensor Gpt::hidden(const Tensor& tokens, const std::vector<Index>& first, nn::KeyValueCache* cache) {
  const Index count = tokens.size(1);
  nn::SelfAttentionCall call{.alibi = options_.positions == GptPositions::alibi, .cache = cache};
  if (wpe_) return hidden(tokens, learned(first, count), call);
  if (rotary_) rotate(call, first, count);
  return hidden(tokens, Tensor(), call);
}

Tensor Gpt::hidden(const Tensor& tokens, const Tensor& learned, nn::SelfAttentionCall call) {
  Tensor x = (*wte_)(tokens);
  if (learned.defined()) x = add(x, learned);
  x = dropout(x, options_.dropout, training());
  const bool wide = options_.residual == ResidualType::fp32;
  nn::Residual stream{wide ? cast(x, wide_of(x.dtype())) : x};
  for (const auto& block : blocks_) {
    stream = (*block)(stream, call);
    ++call.layer;
  }
  return nn::normed(*ln_f_, stream, {options_.dropout, training(), wide}).normed;
}

CausalModel::Advanced Gpt::read(const Tensor& words, const State& state, const Tensor& lengths) {
  require(words.defined() && words.rank() == 2, kGpt, "expects words [T,N], got {}", to_string(words));
  const Index count = words.size(0), rows = words.size(1);
  const Tensor tokens = transpose(words, 0, 1);
  if (state.empty()) {
    require_fits(count);
    const std::vector<Index> first(static_cast<std::size_t>(rows), 0);
    return {.hidden = transpose(hidden(tokens, first, nullptr), 0, 1), .state = {}};
  }
  const NoGrad no_grad;
  const Tensor position = state.find("position");
  ensure(position.defined() && position.numel() == rows, kGpt, "the state is not of {} texts", rows);
  std::vector<Index> first;
  for (const std::int64_t at : position.to_vector<std::int64_t>()) first.push_back(at);
  std::vector<Index> added(static_cast<std::size_t>(rows), count);
  if (lengths.defined()) added = lengths.to_vector<Index>();

  nn::KeyValueCache cache(options_.layers, first, {state.find("keys"), state.find("values")});
  Tensor last;
  if (cache.is_even()) {
    require_fits(first.front() + count);
    last = hidden(tokens, first, &cache);
    cache.advance(added);
  } else {  // token by token
    for (std::size_t r = 0; r < first.size(); ++r) require_fits(first[r] + added[r]);
    TensorList parts;
    for (Index t = 0; t < count; ++t) {
      parts.push_back(hidden(slice(tokens, 1, t, t + 1), cache.positions(), &cache));
      std::vector<Index> one;
      for (const Index tokens_of_row : added) one.push_back(t < tokens_of_row ? 1 : 0);
      cache.advance(one);
    }
    last = concat(parts, 1);
  }
  const std::vector<Index>& at = cache.positions();
  Advanced advanced{.hidden = transpose(last, 0, 1), .state = {}};
  advanced.state.set("position", Tensor::from(std::vector<std::int64_t>(at.begin(), at.end()), {1, rows}));
  advanced.state.set("keys", cache.memory().keys);
  advanced.state.set("values", cache.memory().values);
  return advanced;
}

TensorList Gpt::forward_outputs(const TensorList& inputs) {
  const auto layers = static_cast<std::size_t>(options_.layers);
  require(inputs.size() == 2 + 2 * layers, kGpt,
          "takes tokens, positions, and keys and values of {} layers, got {} tensors", layers, inputs.size());
  const Tensor &tokens = inputs[0], &positions = inputs[1];
  std::vector<nn::PastKeys> past;
  for (std::size_t i = 0; i < layers; ++i) past.push_back({inputs[2 + 2 * i], inputs[3 + 2 * i]});
  nn::SelfAttentionCall call{.alibi = options_.positions == GptPositions::alibi, .past = &past};
  if (rotary_) {
    call.rotary_table = *rotary_;
    call.rotary = {.positions = positions, .interleaved = options_.rotary_interleaved};
  }
  TensorList outputs{scores(hidden(tokens, wpe_ ? (*wpe_)(positions) : Tensor(), call))};
  for (const nn::PastKeys& each : past) outputs.insert(outputs.end(), {each.keys, each.values});
  return outputs;
}

std::vector<nn::Port> Gpt::inputs() const {
  using nn::Port;
  std::vector<Port> ports;
  for (const char* const name : {"input_ids", "position_ids"})
    ports.push_back({name, {Port::kRows, Port::kSteps}, DType::i64});
  const Index heads = options_.kv_heads > 0 ? options_.kv_heads : options_.heads;
  for (const std::string& name : nn::key_value_names("past_key_values", options_.layers))
    ports.push_back({name, {Port::kRows, heads, Port::kPast, options_.width / options_.heads}});
  return ports;
}

std::vector<std::string> Gpt::outputs() const {
  std::vector<std::string> names = nn::key_value_names("present", options_.layers);
  names.insert(names.begin(), "logits");
  return names;
}

std::string Gpt::describe() const {
  return fmt::format("Gpt({} words, {} layers of {}{})", options_.vocabulary, options_.layers, options_.width,
                     options_.tied ? ", tied" : "");
}

ForeignNames Gpt::foreign_names(const safetensors::File& file) const {
  return options_.norm == nn::BlockNorm::rms && architecture_of(file) == "Llama" ? llama_names(file)
                                                                                 : gpt2_names(file);
}

std::vector<WordTable> Gpt::word_tables() const { return {{"wte.weight"}, {"lm_head.weight"}}; }

}  // namespace tandem::models
