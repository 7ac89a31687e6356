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
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "export/onnx.h"
#include "files/digest.h"
#include "files/write.h"
#include "golden/onnx.pb.h"
#include "models/language_model.h"
#include "models/text_classifier.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

using namespace tandem;

namespace {

constexpr Index kWords = 11, kSteps = 7, kRows = 4;
constexpr double kTolerance = 2e-5;

struct SequenceCase {
  std::string name;
  nn::ModulePtr model;

  const nn::Ports& ports() const { return dynamic_cast<const nn::Ports&>(*model); }
};

SequenceCase sequence_case(const std::string& name, nn::ModulePtr model) {
  set_initial(*model);
  model->eval();
  return {"sequence_" + name, std::move(model)};
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

std::vector<SequenceCase> sequence_cases() {
  using models::TextPooling;
  return {sequence_case("lstm", language_model(RnnCell::lstm, 2, false)),
          sequence_case("lstm_tied", language_model(RnnCell::lstm, 1, true)),
          sequence_case("gru", language_model(RnnCell::gru, 2, false)),
          sequence_case("tanh", language_model(RnnCell::rnn_tanh, 1, false)),
          sequence_case("relu", language_model(RnnCell::rnn_relu, 2, false)),
          sequence_case("lstm_mean", classifier(RnnCell::lstm, 2, true, TextPooling::mean)),
          sequence_case("lstm_last", classifier(RnnCell::lstm, 2, true, TextPooling::last)),
          sequence_case("gru_last", classifier(RnnCell::gru, 1, true, TextPooling::last)),
          sequence_case("relu_mean", classifier(RnnCell::rnn_relu, 1, false, TextPooling::mean))};
}

// With names of its words, as a task gives them.
std::string onnx_of(const SequenceCase& each) {
  std::string words = R"(["<unk>","<end>")";
  for (Index word = 2; word < kWords; ++word) words += fmt::format(R"(,"w{}")", word);
  return exporting::onnx_model(*each.model, {}, {.metadata = {{"tandem.words", words + "]"}}});
}

// Words in [0, kWords), lengths of every kind, states in (-1, 1).
Tensor input_of(const SequenceCase& each, const nn::Port& port) {
  if (port.name == "lengths") return Tensor::from(std::vector<std::int64_t>{kSteps, 1, 4, 2}, {kRows});
  std::vector<Index> extents = port.extents;
  std::ranges::replace(extents, nn::Port::kSteps, kSteps);
  std::ranges::replace(extents, nn::Port::kRows, kRows);
  const Shape shape{std::span<const Index>(extents)};
  const std::string stream = port.name + " of " + each.name;
  if (port.dtype == DType::f32) return signed_unit(stream, shape);
  std::vector<std::int64_t> words;
  for (const std::uint32_t word : hashed(stream, shape.numel())) words.push_back(word % kWords);
  return Tensor::from(words, shape);
}

// By its ports.
TensorList outputs_of(const SequenceCase& each) {
  const NoGrad no_grad;
  TensorList inputs;
  for (const nn::Port& port : each.ports().inputs()) inputs.push_back(input_of(each, port));
  return each.model->all_outputs(inputs);
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

onnx::GraphProto graph_of(nn::Module& model) {
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(exporting::onnx_model(model, {})));
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
    const std::vector<std::string> names = each.ports().outputs();
    REQUIRE(outputs.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i]);
      CHECK(largest_difference(outputs[i], golden.read(each.name + "/" + names[i])) < kTolerance);
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
    for (const nn::Port& port : each.ports().inputs())
      tensors.emplace_back(each.name + "/in/" + port.name, input_of(each, port));
    const TensorList outputs = outputs_of(each);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      tensors.emplace_back(each.name + "/out/" + each.ports().outputs()[i], outputs[i]);
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
  CHECK_THAT(refusal(backwards), Contains("sequence length"));
  CHECK(refusal(both_ways).empty());
  OfPairs whole([](const Tensor& x) { return mean(x, {0}); });
  CHECK(refusal(whole).empty());
}
