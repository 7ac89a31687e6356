// Exported sequence models against onnxruntime, which evaluated these files, as in
// tests/golden/export_test.cpp: tests/golden/export_sequences.py stores its results and the SHA-256 of each
// file. With TANDEM_ONNX_PYTHON, a Python with onnxruntime, onnx, numpy and safetensors, it runs again.
// TANDEM_EXPORT_DIR keeps the files.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "autograd/modes.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "export/onnx.h"
#include "files/digest.h"
#include "files/write.h"
#include "golden/onnx.pb.h"
#include "models/bert.h"
#include "models/gpt.h"
#include "models/language_model.h"
#include "models/text_classifier.h"
#include "models/transformer.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

using namespace tandem;

namespace {

constexpr Index kWords = 11, kSteps = 7, kRows = 4, kPast = 3, kSource = 5;
constexpr Index kPrompt = 3, kWritten = 50;
constexpr std::int64_t kBegin = 1;
constexpr double kTolerance = 2e-5;

struct SequenceCase {
  std::string name;
  nn::ModulePtr model;
  int opset = 17;
  std::optional<nn::Part> part{};

  const nn::Ports& ports() const { return dynamic_cast<const nn::Ports&>(*model); }
  std::vector<nn::Port> inputs() const { return part ? part->inputs : ports().inputs(); }
  std::vector<std::string> outputs() const { return part ? part->outputs : ports().outputs(); }
};

SequenceCase sequence_case(const std::string& name, nn::ModulePtr model, int opset = 17) {
  set_initial(*model);
  model->eval();
  return {"sequence_" + name + (opset == 17 ? "" : "_23"), std::move(model), opset};
}

nn::ModulePtr language_model(RnnCell cell, Index layers, bool tied) {
  return std::make_shared<models::LanguageModel>(models::LanguageModelOptions{.vocabulary = kWords,
                                                                              .embedding = tied ? 6 : 5,
                                                                              .units = 6,
                                                                              .layers = layers,
                                                                              .cell = cell,
                                                                              .tied = tied});
}

nn::ModulePtr classifier(RnnCell cell, Index layers, bool bidirectional, models::TextPooling pooling) {
  return std::make_shared<models::TextClassifier>(
      models::TextClassifierOptions{.vocabulary = kWords,
                                    .classes = 3,
                                    .embedding = 5,
                                    .units = 4,
                                    .layers = layers,
                                    .cell = cell,
                                    .bidirectional = bidirectional,
                                    .pooling = pooling});
}

// GPT-2's options, or with `llama` those of Llama.
nn::ModulePtr gpt(bool llama, bool interleaved = false) {
  models::GptOptions options{.vocabulary = kWords,
                             .layers = 2,
                             .width = 16,
                             .heads = 4,
                             .context = 64,
                             .activation = nn::BlockActivation::gelu_tanh};
  if (llama) {
    options.kv_heads = 2;
    options.bias = options.tied = false;
    options.norm = nn::BlockNorm::rms;
    options.activation = nn::BlockActivation::swiglu;
    options.positions = models::GptPositions::rotary;
    options.rotary_interleaved = interleaved;
  }
  return std::make_shared<models::Gpt>(options);
}

nn::ModulePtr bert(Index classes) {
  return std::make_shared<models::Bert>(models::BertOptions{.vocabulary = kWords,
                                                            .width = 8,
                                                            .layers = 2,
                                                            .heads = 2,
                                                            .context = 16,
                                                            .masked_words = classes == 0,
                                                            .classes = classes});
}

// Encoder and decoder of a Transformer, with norms before the branches or after them.
void add_transformer_cases(std::vector<SequenceCase>& cases, const char* name, bool norm_first, int opset) {
  const auto model = std::make_shared<models::Transformer>(models::TransformerOptions{
      .source_words = kWords,
      .target_words = kWords,
      .encoder_layers = 1,
      .decoder_layers = 2,
      .width = 16,
      .heads = 4,
      .inner = 24,
      .norm_first = norm_first,
      .activation = norm_first ? models::TransformerActivation::relu : models::TransformerActivation::gelu,
      .shared = norm_first});
  for (const nn::Part& part : model->parts(kWritten)) {
    cases.push_back(sequence_case(fmt::format("{}_{}", name, part.name), model, opset));
    cases.back().part = part;
  }
}

// A model whose ports are texts x [N,T,16] with their lengths, and its result.
class OfTexts final : public nn::Module, public nn::Ports {
 public:
  using Function = std::function<Tensor(const Tensor& x, const Tensor& lengths)>;
  explicit OfTexts(Function function) : function_(std::move(function)) {}
  TensorList forward_outputs(const TensorList& inputs) override { return {function_(inputs[0], inputs[1])}; }
  std::vector<nn::Port> inputs() const override {
    using nn::Port;
    return {{"x", {Port::kRows, Port::kSteps, 16}}, {"lengths", {Port::kRows}, DType::i64}};
  }
  std::vector<std::string> outputs() const override { return {"y"}; }

 private:
  Function function_;
};

// x as queries of 4 heads, and keys and values of 2, with the keys masked as `options` say.
nn::ModulePtr attention(AttentionOptions options, bool with_lengths) {
  options.training = false;
  return std::make_shared<OfTexts>([options, with_lengths](const Tensor& x, const Tensor& lengths) {
    AttentionOptions own = options;
    if (with_lengths) own.lengths = lengths;
    const Tensor keys = slice(x, 2, 0, 8), values = slice(x, 2, 8, 16);
    return multi_head_attention(x, keys, values, {.queries = 4, .keys = 2}, own);
  });
}

void add_attention_cases(std::vector<SequenceCase>& cases, int opset) {
  const auto add = [&](const char* name, nn::ModulePtr model) {
    cases.push_back(sequence_case(name, std::move(model), opset));
  };
  add("gpt", gpt(false));
  add("llama", gpt(true));
  add("llama_interleaved", gpt(true, true));
  add("bert_classes", bert(3));
  add("bert_words", bert(0));
  add("causal", attention({.causal = true}, false));
  add("window", attention({.scale = 0.7, .causal = true, .window = 3}, false));
  add("window_lengths", attention({.causal = true, .window = 2}, true));
  add("alibi", attention({.causal = true, .alibi = true}, false));
  add("alibi_everywhere", attention({.alibi = true}, true));
}

std::vector<SequenceCase> sequence_cases() {
  using models::TextPooling;
  std::vector<SequenceCase> cases{
      sequence_case("lstm", language_model(RnnCell::lstm, 2, false)),
      sequence_case("lstm_tied", language_model(RnnCell::lstm, 1, true)),
      sequence_case("gru", language_model(RnnCell::gru, 2, false)),
      sequence_case("tanh", language_model(RnnCell::rnn_tanh, 1, false)),
      sequence_case("relu", language_model(RnnCell::rnn_relu, 2, false)),
      sequence_case("lstm_mean", classifier(RnnCell::lstm, 2, true, TextPooling::mean)),
      sequence_case("lstm_last", classifier(RnnCell::lstm, 2, true, TextPooling::last)),
      sequence_case("gru_last", classifier(RnnCell::gru, 1, true, TextPooling::last)),
      sequence_case("relu_mean", classifier(RnnCell::rnn_relu, 1, false, TextPooling::mean))};
  for (const int opset : {17, 23}) {
    add_attention_cases(cases, opset);
    add_transformer_cases(cases, "transformer", true, opset);
    add_transformer_cases(cases, "transformer_post", false, opset);
  }
  return cases;
}

// With metadata as a task gives it. Translations have no end, so that they have kWritten words.
std::string onnx_of(const SequenceCase& each) {
  std::string words = R"(["<unk>","<end>")";
  for (Index word = 2; word < kWords; ++word) words += fmt::format(R"(,"w{}")", word);
  std::map<std::string, std::string> metadata{{"tandem.words", words + "]"}};
  if (each.part)
    metadata = {{"tandem.begin", std::to_string(kBegin)},
                {"tandem.end", std::to_string(kWords)},
                {"tandem.max_length", std::to_string(kWritten)}};
  return exporting::onnx_model(*each.model, {},
                               {.opset = each.opset, .metadata = metadata, .part = each.part});
}

Tensor hashed_words(const std::string& stream, const Shape& shape) {
  std::vector<std::int64_t> words;
  for (const std::uint32_t word : hashed(stream, shape.numel())) words.push_back(word % kWords);
  return Tensor::from(words, shape);
}

// Of every kind, up to `longest`.
Tensor hashed_lengths(Index longest) {
  return Tensor::from(std::vector<std::int64_t>{longest, 1, 4, 2}, {kRows});
}

// Words in [0, kWords), lengths of every kind, states in (-1, 1).
Tensor input_of(const SequenceCase& each, const nn::Port& port) {
  if (port.name == "lengths") return hashed_lengths(each.part ? kSource : kSteps);
  std::vector<Index> extents = port.extents;
  std::ranges::replace(extents, nn::Port::kSteps, kSteps);
  std::ranges::replace(extents, nn::Port::kRows, kRows);
  std::ranges::replace(extents, nn::Port::kPast, kPast);
  std::ranges::replace(extents, nn::Port::kSource, kSource);
  const Shape shape{std::span<const Index>(extents)};
  const std::string stream = port.name + " of " + each.name;
  if (port.dtype == DType::f32) return signed_unit(stream, shape);
  if (port.name != "position_ids") return hashed_words(stream, shape);
  std::vector<std::int64_t> positions;
  for (Index i = 0; i < shape.numel(); ++i) positions.push_back(kPast + i % kSteps);
  return Tensor::from(positions, shape);
}

// By its ports.
TensorList outputs_of(const SequenceCase& each) {
  const NoGrad no_grad;
  TensorList inputs;
  for (const nn::Port& port : each.inputs()) inputs.push_back(input_of(each, port));
  return each.part ? each.part->forward(inputs) : each.model->all_outputs(inputs);
}

// A prompt, and the likeliest words after it, as the language task writes them.
std::vector<std::int64_t> written(models::CausalModel& model) {
  const NoGrad no_grad;
  std::vector<std::int64_t> ids{4, 1, 9}, next = ids;
  models::State state = model.begin(1);
  while (std::ssize(ids) < kPrompt + kWritten) {
    const auto count = static_cast<Index>(next.size());
    const auto advanced = model.advance(Tensor::from(next, {count, 1}), state);
    state = advanced.state;
    const auto scores = model.scores(advanced.hidden.rows(count - 1, 1)).to_vector<float>();
    next = {std::ranges::max_element(scores) - scores.begin()};
    ids.push_back(next[0]);
  }
  return ids;
}

models::Gpt* gpt_of(const SequenceCase& each) { return dynamic_cast<models::Gpt*>(each.model.get()); }

// Sources [S,N] of several lengths with targets [T,N], the model's scores of these, and its greedy
// translations [kWritten,N].
std::vector<safetensors::NamedTensor> translations_of(models::Transformer& model) {
  const NoGrad no_grad;
  const Tensor source = hashed_words("source", {kSource, kRows}), lengths = hashed_lengths(kSource),
               target = hashed_words("target", {kSteps, kRows});
  const auto memory = model.encode(source, lengths);
  std::vector<std::int64_t> next(kRows, kBegin), written;
  models::State state;
  for (Index t = 0; t < kWritten; ++t) {
    const auto advanced = model.advance(Tensor::from(next, {1, kRows}), memory, state);
    state = advanced.state;
    const auto scores = model.scores(advanced.hidden).to_vector<float>();
    for (Index row = 0; row < kRows; ++row) {
      const auto first = scores.begin() + row * kWords;
      next[static_cast<std::size_t>(row)] = std::max_element(first, first + kWords) - first;
    }
    written.insert(written.end(), next.begin(), next.end());
  }
  return {{"source", source},
          {"lengths", lengths},
          {"target", target},
          {"scores", model(source, lengths, target)},
          {"written", Tensor::from(written, {kWritten, kRows})}};
}

// Once for both parts.
models::Transformer* transformer_of(const SequenceCase& each) {
  const bool first = each.part && each.part->name == "decoder";
  return first ? dynamic_cast<models::Transformer*>(each.model.get()) : nullptr;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

onnx::GraphProto graph_of(nn::Module& model, int opset = 17,
                          const std::optional<nn::Part>& part = std::nullopt) {
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(exporting::onnx_model(model, {}, {.opset = opset, .part = part})));
  return proto.graph();
}

std::string refusal(nn::Module& model) {
  return testing::user_error_of([&] { exporting::onnx_model(model, {}); });
}

std::vector<float> values_of(const onnx::GraphProto& graph, const std::string& name) {
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name() != name) continue;
    std::vector<float> values(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    return values;
  }
  FAIL("there is no " << name);
  return {};
}

// A model whose ports are one sequence of pairs and its result.
class OfPairs final : public nn::Module, public nn::Ports {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  explicit OfPairs(Function function) : function_(std::move(function)) {}
  TensorList forward_outputs(const TensorList& inputs) override { return {function_(inputs[0])}; }
  std::vector<nn::Port> inputs() const override { return {{"x", {nn::Port::kSteps, nn::Port::kRows, 2}}}; }
  std::vector<std::string> outputs() const override { return {"y"}; }

 private:
  Function function_;
};

}  // namespace

TEST_CASE("exported models of sequences are the files with which onnxruntime agreed") {
  const safetensors::File golden(tandem::test::source_path("tests/golden/export_sequences.safetensors"));
  for (const SequenceCase& each : sequence_cases()) {
    INFO(each.name);
    CHECK(files::sha256(onnx_of(each)) == golden.metadata().at(each.name + ".sha256"));
    const TensorList outputs = outputs_of(each);
    const std::vector<std::string> names = each.outputs();
    REQUIRE(outputs.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i]);
      if (names[i].starts_with("present")) continue;  // large; export_sequences.py compares them
      CHECK(largest_difference(outputs[i], golden.read(each.name + "/" + names[i])) < kTolerance);
    }
    if (auto* const model = gpt_of(each))
      CHECK(written(*model) == golden.read(each.name + "/written").to_vector<std::int64_t>());
    if (auto* const model = transformer_of(each)) {
      const auto all = translations_of(*model);
      CHECK(largest_difference(all[3].second, golden.read(each.name + "/scores")) < kTolerance);
      CHECK(all[4].second.to_vector<std::int64_t>() ==
            golden.read(each.name + "/written").to_vector<std::int64_t>());
    }
  }
}

TEST_CASE("onnxruntime runs exported models of sequences, whole and step by step") {
  const std::string python = variable("TANDEM_ONNX_PYTHON"), kept = variable("TANDEM_EXPORT_DIR");
  if (python.empty() && kept.empty()) {
    WARN("not asked again: TANDEM_ONNX_PYTHON names no Python with onnxruntime");
    return;
  }
  const testing::TemporaryDirectory temporary;
  const std::filesystem::path folder = kept.empty() ? temporary.path() : std::filesystem::path(kept);
  std::filesystem::create_directories(folder);
  std::vector<safetensors::NamedTensor> tensors;
  for (const SequenceCase& each : sequence_cases()) {
    files::write_atomically(folder / (each.name + ".onnx"), onnx_of(each));
    for (const nn::Port& port : each.inputs())
      tensors.emplace_back(each.name + "/in/" + port.name, input_of(each, port));
    const TensorList outputs = outputs_of(each);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      tensors.emplace_back(each.name + "/out/" + each.outputs()[i], outputs[i]);
    if (auto* const model = gpt_of(each))
      tensors.emplace_back(each.name + "/written", Tensor::from(written(*model), {kPrompt + kWritten}));
    if (auto* const model = transformer_of(each))
      for (const auto& [name, tensor] : translations_of(*model))
        tensors.emplace_back(each.name + "/" + name, tensor);
  }
  safetensors::write((folder / "sequences.safetensors").string(), tensors);
  if (python.empty()) return;
  const std::string script = tandem::test::source_path("tests/golden/export_sequences.py");
  CHECK(std::system((python + " " + script + " " + folder.string()).c_str()) == 0);
}

TEST_CASE("gates stand in ONNX's order, and steps and rows are free") {
  const auto model = language_model(RnnCell::lstm, 1, false);
  for (const Parameter& parameter : model->parameters()) {
    float* const values = parameter.value().data<float>();
    const Index row = parameter.value().numel() / parameter.value().size(0);
    for (Index i = 0; i < parameter.value().numel(); ++i) values[i] = static_cast<float>(i / row);
  }
  const onnx::GraphProto graph = graph_of(*model);
  // Of six units i f g o, rows 0 6 12 18 there; i o f g here.
  const std::vector<float> b = values_of(graph, "rnn/B"), w = values_of(graph, "rnn/W");
  REQUIRE(b.size() == 48);
  REQUIRE(w.size() == 24 * 5);
  for (const std::size_t bias : {0U, 24U})
    CHECK(std::vector<float>{b[bias], b[bias + 6], b[bias + 12], b[bias + 18]} ==
          std::vector<float>{0.0F, 18.0F, 6.0F, 12.0F});
  CHECK(w[6 * 5] == 18.0F);
  for (const auto& tensor : graph.initializer())
    CHECK_THAT(tensor.name(), !Catch::Contains("weight_ih") && !Catch::Contains("bias_hh"));
  const auto& words = graph.input(0).type().tensor_type().shape();
  CHECK(words.dim(0).dim_param() == "T");
  CHECK(words.dim(1).dim_param() == "N");
  const auto& state = graph.output(2).type().tensor_type().shape();
  CHECK(state.dim(0).dim_value() == 1);
  CHECK(state.dim(1).dim_param() == "N");
}

TEST_CASE("sequence layers without ONNX counterpart are refused by layer and op") {
  using Catch::Contains;
  models::LanguageModel projected(
      {.vocabulary = kWords, .embedding = 5, .units = 6, .layers = 1, .projection = 3});
  CHECK_THAT(refusal(projected), Contains("\"rnn\"") && Contains("lstm") && Contains("projection"));
  OfPairs computed([](const Tensor& x) {
    const Tensor w = stack(TensorList(6, sum(x, {0, 1})), 0);
    return rnn_layer(x, {}, {.weight_ih = w, .weight_hh = w, .bias_ih = {}, .bias_hh = {}, .weight_hr = {}},
                     {.cell = RnnCell::gru})
        .y;
  });
  CHECK_THAT(refusal(computed), Contains("gru") && Contains("must be a parameter"));
  OfPairs last([](const Tensor& x) { return slice(x, 0, -1, x.size(0)); });
  CHECK_THAT(refusal(last), Contains("sequence length"));
  OfPairs averages([](const Tensor& x) { return sum(x, {0}) * (1.0 / static_cast<double>(x.size(0))); });
  CHECK_THAT(refusal(averages), Contains("node \"Mul\" depends on the sequence length"));
  OfPairs all_but_last([](const Tensor& x) { return slice(x, 0, 0, x.size(0) - 1); });
  CHECK_THAT(refusal(all_but_last), Contains("node \"Slice\" depends on the sequence length"));
  OfPairs regroups([](const Tensor& x) { return reshape(x, {x.size(1), x.size(0), 2}); });
  CHECK_THAT(refusal(regroups), Contains("steps and batch"));
  OfPairs rows([](const Tensor& x) { return reshape(x, {1, x.size(0), x.size(1), 2}); });
  CHECK_THAT(refusal(rows), Contains("steps and batch"));
  const auto attention = [](bool causal) {
    return OfPairs([causal](const Tensor& x) {
      const Tensor rows_first = permute(x, {1, 0, 2});
      const Tensor weights = masked_softmax(matmul(rows_first, rows_first, false, true), {.causal = causal});
      return permute(matmul(weights, rows_first), {1, 0, 2});
    });
  };
  OfPairs backwards = attention(true), both_ways = attention(false);
  CHECK(refusal(backwards).empty());
  CHECK(refusal(both_ways).empty());
  OfTexts packed([](const Tensor& x, const Tensor&) {
    const Tensor documents = Tensor::zeros({x.size(0), x.size(1)}, {.dtype = DType::i64});
    return multi_head_attention(x, x, x, {.queries = 4}, {.causal = true, .documents = documents});
  });
  CHECK_THAT(refusal(packed), Contains("attention: documents of packed texts have no translation"));
  OfTexts counts([](const Tensor& x, const Tensor& lengths) {
    return x * reshape(cast(permute(lengths, {0}), DType::f32), {x.size(0), 1, 1});
  });
  CHECK_THAT(refusal(counts), Contains("returns integers"));
  OfPairs whole([](const Tensor& x) { return mean(x, {0}); });
  CHECK(refusal(whole).empty());
}

namespace {

std::vector<std::string> extents_of(const onnx::ValueInfoProto& value) {
  std::vector<std::string> extents;
  for (const auto& extent : value.type().tensor_type().shape().dim())
    extents.push_back(extent.has_dim_param() ? extent.dim_param() : std::to_string(extent.dim_value()));
  return extents;
}

Index count_of(const onnx::GraphProto& graph, const std::string& op) {
  return std::ranges::count_if(graph.node(), [&](const auto& node) { return node.op_type() == op; });
}

}  // namespace

TEST_CASE("a decoder is exported with its past, and masks have no fixed extents") {
  using Extents = std::vector<std::string>;
  const auto model = gpt(true);
  for (const int opset : {17, 23}) {
    INFO(opset);
    const onnx::GraphProto graph = graph_of(*model, opset);
    REQUIRE(graph.input_size() == 6);
    REQUIRE(graph.output_size() == 5);
    CHECK(graph.input(0).name() == "input_ids");
    CHECK(extents_of(graph.input(1)) == Extents{"N", "T"});
    CHECK(graph.input(5).name() == "past_key_values.1.value");
    CHECK(extents_of(graph.input(5)) == Extents{"N", "2", "P", "4"});
    CHECK(extents_of(graph.output(0)) == Extents{"N", "T", "11"});
    CHECK(graph.output(4).name() == "present.1.value");
    CHECK(extents_of(graph.output(4)) == Extents{"N", "2", "P + T", "4"});
    // Weights and the table of rotary positions are the only large tensors; both layers share one mask.
    for (const auto& tensor : graph.initializer())
      if (tensor.dims_size() > 1)
        CHECK_THAT(tensor.name(), Catch::EndsWith("weight") || Catch::Equals("rotary"));
    CHECK(count_of(graph, "LessOrEqual") == 1);
    const Index layers = opset == 23 ? 2 : 0;
    CHECK(count_of(graph, "Attention") == layers);
    CHECK(count_of(graph, "RotaryEmbedding") == 2 * layers);
    CHECK(count_of(graph, "RMSNormalization") == 2 * layers + (opset == 23 ? 1 : 0));
    CHECK(count_of(graph, "Softmax") == 2 - layers);
    for (const auto& node : graph.node())
      for (const auto& attribute : node.attribute()) CHECK(attribute.name() != "is_causal");
  }
}

TEST_CASE("an encoder–decoder is exported as two graphs, whose positions are a table of any length") {
  using Extents = std::vector<std::string>;
  models::Transformer model({.source_words = 12, .target_words = 11, .width = 16, .heads = 4, .inner = 24});
  for (const int opset : {17, 23}) {
    INFO(opset);
    const auto parts = model.parts(60);
    REQUIRE(parts.size() == 2);
    const onnx::GraphProto encoder = graph_of(model, opset, parts[0]);
    const onnx::GraphProto decoder = graph_of(model, opset, parts[1]);
    REQUIRE(encoder.input_size() == 2);
    CHECK(extents_of(encoder.input(0)) == Extents{"N", "S"});
    REQUIRE(encoder.output_size() == 6);
    CHECK(encoder.output(5).name() == "encoder.2.value");
    CHECK(extents_of(encoder.output(5)) == Extents{"N", "4", "S", "4"});
    REQUIRE(decoder.input_size() == 3 + 12);
    for (int i = 0; i < 6; ++i) {
      CHECK(decoder.input(3 + i).name() == encoder.output(i).name());
      CHECK(extents_of(decoder.input(3 + i)) == extents_of(encoder.output(i)));
    }
    CHECK(decoder.input(2).name() == "lengths");
    CHECK(extents_of(decoder.input(9)) == Extents{"N", "4", "P", "4"});
    CHECK(extents_of(decoder.output(0)) == Extents{"N", "T", "11"});
    CHECK(extents_of(decoder.output(6)) == Extents{"N", "4", "P + T", "4"});
    // Each has its own embeddings, and the one mask that its layers share.
    for (const onnx::GraphProto* graph : {&encoder, &decoder}) {
      const char* const other = graph == &encoder ? "decoder.embedding" : "encoder.";
      for (const auto& tensor : graph->initializer()) {
        CHECK_THAT(tensor.name(), !Catch::StartsWith(other));
        if (tensor.dims_size() > 1)
          CHECK_THAT(tensor.name(), Catch::EndsWith("weight") || Catch::Equals("positions.table"));
      }
      CHECK(count_of(*graph, "Less") == 1);
      CHECK(count_of(*graph, "LessOrEqual") == (graph == &decoder ? 1 : 0));
      const Index attentions = graph == &decoder ? 6 : 3;
      CHECK(count_of(*graph, opset == 23 ? "Attention" : "Softmax") == attentions);
    }
  }
  const auto longer = model.parts(600);
  CHECK(longer[0].longest == 600);
  CHECK(values_of(graph_of(model, 17, longer[0]), "positions.table_600").size() == 600 * 16);
}

TEST_CASE("an opset without translations, and a context without free steps, are refused") {
  const auto model = gpt(false);
  const auto refused = [](nn::Module& module, int opset) {
    return testing::user_error_of([&] { exporting::onnx_model(module, {}, {.opset = opset}); });
  };
  CHECK_THAT(refused(*model, 18), Catch::Contains("opset must be 17 or 23, got 18"));
  models::Bert narrow({.vocabulary = 12, .width = 8, .layers = 1, .heads = 2, .context = 4});
  CHECK_THAT(refused(narrow, 17), Catch::Contains("texts of up to 4 tokens"));
}
