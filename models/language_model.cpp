#include "models/language_model.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "models/recurrent_layers.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kLanguageModel = "language_model";

}  // namespace

LanguageModel::LanguageModel(const LanguageModelOptions& options) : options_(options) {
  require(options.vocabulary > 0, kLanguageModel, "the vocabulary must not be empty, got {} words",
          options.vocabulary);
  encoder_ = add_child("encoder", std::make_shared<nn::Embedding>(options.vocabulary, options.embedding));
  rnn_ = add_child(
      "rnn", std::make_shared<nn::Recurrent>(options.embedding, options.units,
                                             nn::RecurrentOptions{.cell = options.cell,
                                                                  .layers = options.layers,
                                                                  .projection = options.projection,
                                                                  .dropout = options.dropout,
                                                                  .recompute = options.recompute,
                                                                  .locked = options.locked_dropout,
                                                                  .weight_dropout = options.weight_dropout,
                                                                  .last_units = options.last_units}));
  require(options.word_dropout >= 0.0 && options.word_dropout < 1.0, kLanguageModel,
          "word_dropout must lie in [0, 1), got {}", options.word_dropout);
  require(!options.tied || rnn_->outputs() == options.embedding, kLanguageModel,
          "tied weights need equal numbers of outputs of the cells ({}) and of the embedding ({})",
          rnn_->outputs(), options.embedding);
  require_fitting(options.softmax, rnn_->outputs(), options.vocabulary, options.tied);
  decoder_ = add_child("decoder", make_decoder());
  draw();
}

nn::ModulePtr LanguageModel::make_decoder() {
  if (const auto* adaptive = std::get_if<nn::AdaptiveSoftmaxOptions>(&options_.softmax))
    return adaptive_ = std::make_shared<nn::AdaptiveSoftmax>(rnn_->outputs(), options_.vocabulary, *adaptive);
  std::shared_ptr<nn::Linear> linear;
  if (options_.tied) {
    const Tensor bias = nn::parameter_memory({options_.vocabulary});
    nn::init::zeros(bias);
    linear = std::make_shared<nn::Linear>(encoder_->weight(), Parameter(bias));
  } else {
    linear = std::make_shared<nn::Linear>(rnn_->outputs(), options_.vocabulary);
  }
  if (std::holds_alternative<FullSoftmax>(options_.softmax)) return linear;
  return sampled_ = std::make_shared<nn::SampledSoftmax>(*linear);
}

void LanguageModel::draw() {
  if (options_.init == 0.0) return;
  for (const Parameter& parameter : parameters()) {
    if (parameter.value().rank() > 1) {
      nn::init::uniform(parameter.value(), -options_.init, options_.init);
    } else {
      nn::init::zeros(parameter.value());
    }
  }
}

Tensor LanguageModel::loss(const Tensor& hidden, const Targets& targets) {
  if (sees_all_words()) return CausalModel::loss(hidden, targets);
  if (targets.ready) targets.ready();
  if (adaptive_) return adaptive_->loss(hidden, targets.words, kNoTarget);
  return sampled_->loss(hidden, targets.words, targets.candidates, kNoTarget);
}

CausalModel::Figures LanguageModel::figures(const Tensor& hidden, const Tensor& targets) {
  if (!adaptive_) return CausalModel::figures(hidden, targets);
  return {sum(adaptive_->negative_log_likelihood(hidden, targets, kNoTarget)), adaptive_->predict(hidden)};
}

std::optional<SampledSoftmaxOptions> LanguageModel::candidates() const {
  const auto* const sampled = std::get_if<SampledSoftmaxOptions>(&options_.softmax);
  return sampled ? std::optional(*sampled) : std::nullopt;
}

// A word is dropped at all of its positions or at none: its factor comes from a mask over the vocabulary.
Tensor LanguageModel::embedded(const Tensor& words) const {
  const Tensor x = (*encoder_)(words);
  if (!training() || options_.word_dropout == 0.0) return x;
  const Tensor ones = Tensor::full({options_.vocabulary, 1}, 1.0, {.device = words.device()});
  return cast(mul(x, embedding(dropout(ones, options_.word_dropout), words)), x.dtype());
}

Tensor LanguageModel::drop(const Tensor& x, const std::optional<double>& p) const {
  const double probability = p.value_or(options_.dropout);
  return options_.locked_dropout ? locked_dropout(x, probability, training())
                                 : dropout(x, probability, training());
}

CausalModel::Advanced LanguageModel::read(const Tensor& words, const State& state, const Tensor& lengths) {
  const RnnResult result =
      (*rnn_)(drop(embedded(words), options_.input_dropout), recurrent_state(state), lengths);
  Advanced advanced{.hidden = drop(result.y, options_.output_dropout), .state = {}, .raw = result.y};
  set_recurrent(advanced.state, result.state);
  return advanced;
}

TensorList LanguageModel::forward_outputs(const TensorList& inputs) {
  require(inputs.size() == this->inputs().size(), kLanguageModel, "takes {} tensors, got {}",
          this->inputs().size(), inputs.size());
  State state;
  set_recurrent(state, {inputs[1], inputs.size() > 2 ? inputs[2] : Tensor()});
  const Advanced advanced = read(inputs[0], state, {});
  TensorList all{scores(advanced.hidden)};
  for (const State::Field& field : advanced.state.fields()) all.push_back(field.value);
  return all;
}

std::vector<nn::Port> LanguageModel::inputs() const {
  using nn::Port;
  const Index layers = options_.layers;
  const Index of_h = options_.projection > 0 ? options_.projection : options_.units;
  std::vector<Port> ports{{"words", {Port::kSteps, Port::kRows}, DType::i64},
                          {"h_0", {layers, Port::kRows, of_h}}};
  if (options_.cell == RnnCell::lstm) ports.push_back({"c_0", {layers, Port::kRows, options_.units}});
  return ports;
}

std::vector<std::string> LanguageModel::outputs() const {
  if (options_.cell == RnnCell::lstm) return {"logits", "h_n", "c_n"};
  return {"logits", "h_n"};
}

std::vector<WordTable> LanguageModel::word_tables() const {
  std::vector<WordTable> tables{{"encoder.weight"}};
  if (!adaptive_) {
    tables.push_back({"decoder.weight"});
    tables.push_back({"decoder.bias"});
    return tables;
  }
  for (const auto& [path, parameter] : parameter_paths())
    if (path.starts_with("decoder.")) tables.push_back({.parameter = path, .by_frequency = true});
  return tables;
}

std::string LanguageModel::describe() const {
  return fmt::format("LanguageModel({} words, {}{})", options_.vocabulary, options_.embedding,
                     options_.tied ? ", tied" : "");
}

}  // namespace tandem::models
