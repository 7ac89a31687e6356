// Models from JSON: equal to those in C++, inferred shapes, and each error at its place.
#include "models/builder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/random.h"
#include "models/causal_model.h"
#include "models/layer_types.h"
#include "models/model_options.h"
#include "models/resnet.h"
#include "nn/layers.h"

using namespace tandem;
using namespace tandem::models;

namespace {

using nlohmann::json;

const DataInfo kImages{.sample = {28, 28, 1}, .dtype = DType::f32, .classes = 10};

nn::ModulePtr built(const char* text, const DataInfo& data = kImages) {
  return build(json::parse(text), data);
}

// The place and the message of the error that `text` must give.
std::string error_of(const char* text, const DataInfo& data = kImages) {
  try {
    built(text, data);
  } catch (const OptionError& error) {
    CHECK(std::string(error.what()).starts_with("[" + error.path() + "] "));
    return error.what();
  }
  return "no error";
}

void check_error(const char* text, std::initializer_list<const char*> parts, const DataInfo& data = kImages) {
  const std::string message = error_of(text, data);
  for (const char* part : parts) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a list of layers is a sequence whose channels are inferred") {
  const auto model = built(R"({"layers": [
    {"type": "conv2d", "out_channels": 8, "kernel": 3, "padding": "same", "bias": false},
    {"type": "batch_norm", "relu": true, "name": "bn"},
    {"type": "max_pool2d", "kernel": 2},
    {"type": "conv2d", "out_channels": 16, "kernel": [3, 5], "stride": [1, 2], "padding": [1, 2], "groups": 2},
    {"type": "flatten"},
    {"type": "dropout", "p": 0.25},
    {"type": "linear", "out_features": 10, "init": "kaiming_uniform"}]})");
  CHECK(output_shape(*model, {28, 28, 1}) == Shape{10});
  CHECK(model->find("0")->describe() == "Conv2d(1 → 8, 3×3, padding 1, no bias)");
  CHECK(model->find("3")->describe() == "Conv2d(8 → 16, 3×5, stride 1×2, padding 1×2, 2 groups)");
  CHECK(model->find("6")->describe() == "Linear(1568 → 10)");
  CHECK(model->find("bn") != nullptr);
  CHECK(model->training());
  CHECK(std::dynamic_pointer_cast<nn::Sequential>(model) != nullptr);
  backward(sum((*model)(Tensor::zeros({3, 28, 28, 1}))));
}

TEST_CASE("a graph of named layers computes what it says") {
  const char* text = R"({"layers": [
    {"type": "concat", "name": "both", "inputs": ["left", "right", "input"]},
    {"type": "relu", "name": "left", "inputs": ["input"]},
    {"type": "tanh", "name": "right", "inputs": ["left"]},
    {"type": "add", "name": "sum", "inputs": ["left", "right", "input"]},
    {"type": "sigmoid", "name": "unused_branch"},
    {"type": "concat", "inputs": ["both", "unused_branch"]}], "output": "5x"})";
  check_error(text, {"[model.output]", "5x"}, {.sample = {4}});
  json graph = json::parse(text);
  graph.erase("output");
  const auto model = build(graph, {.sample = {4}});
  const Tensor x = Tensor::from({-1, 0.5, 2, -3}, {1, 4});
  const NoGrad no_grad;
  const auto y = (*model)(x).to_vector<double>();
  REQUIRE(y.size() == 16);
  CHECK(y[1] == 0.5);
  CHECK(y[5] == Approx(std::tanh(0.5)));
  CHECK(y[11] == -3.0);
  CHECK(y[13] == Approx(1.0 / (1.0 + std::exp(-(0.5 + std::tanh(0.5) + 0.5)))));
}

TEST_CASE("layers are made in their list's own order, where inputs leave it free") {
  const auto model = built(R"({"layers": [
      {"type": "flatten", "name": "a", "inputs": ["input"]},
      {"type": "linear", "out_features": 3, "name": "b", "inputs": ["a"]},
      {"type": "flatten", "name": "c", "inputs": ["input"]},
      {"type": "linear", "out_features": 3, "name": "d", "inputs": ["c"]},
      {"type": "flatten", "name": "e", "inputs": ["input"]},
      {"type": "linear", "out_features": 3, "name": "f", "inputs": ["e"]},
      {"type": "add", "name": "g", "inputs": ["f", "b", "d"]}]})",
                           {.sample = {2, 2}, .dtype = DType::f32, .classes = 3});
  std::string order;
  for (const auto& [name, child] : model->children()) order += name;
  CHECK(order == "abcdefg");
}

TEST_CASE("a layer may take another one twice") {
  const auto model = build(json::parse(R"({"layers": [
    {"type": "tanh", "name": "a"}, {"type": "relu", "name": "b"},
    {"type": "add", "inputs": ["b", "b", "a", "b", "a"]}]})"),
                           {.sample = {2}});
  const NoGrad no_grad;
  const auto y = (*model)(Tensor::from({-1, 2}, {1, 2})).to_vector<double>();
  CHECK(y[0] == Approx(2 * std::tanh(-1.0)));
  CHECK(y[1] == Approx(5 * std::tanh(2.0)));
}

TEST_CASE("batch norm takes a residual as its second input") {
  const auto model = built(R"({"layers": [
    {"type": "conv2d", "name": "branch", "out_channels": 1, "kernel": 3, "padding": "same"},
    {"type": "batch_norm", "inputs": ["branch", "input"], "relu": true},
    {"type": "flatten"}]})");
  CHECK(output_shape(*model, {28, 28, 1}) == Shape{784});
}

TEST_CASE("layers take the outputs of a split by number") {
  const auto model = build(json::parse(R"({"layers": [
    {"type": "split", "name": "halves", "parts": 2},
    {"type": "sigmoid", "name": "gate", "inputs": ["halves.1"]},
    {"type": "concat", "inputs": ["gate", "halves.0"]}]})"),
                           {.sample = {4}});
  const Tensor x = Tensor::from({-1, 0.5, 2, -3}, {1, 4});
  const auto y = (*model)(x).to_vector<double>();
  REQUIRE(y.size() == 4);
  CHECK(y[0] == Approx(1.0 / (1.0 + std::exp(-2.0))));
  CHECK(y[2] == -1.0);
  CHECK(model->find("halves")->describe() == "Split(2 + 2, axis -1)");
  // One of them may be the result, and one may stay unused.
  const auto one = build(json::parse(R"({"layers": [
    {"type": "split", "name": "s", "sizes": [1, 2, 1], "axis": 1}], "output": "s.1"})"),
                         {.sample = {4, 3}});
  CHECK(output_shape(*one, {4, 3}) == Shape{2, 3});

  const auto refused = [](const char* text, std::initializer_list<const char*> parts) {
    check_error(text, parts, {.sample = {4}});
  };
  refused(R"({"layers": [{"type": "split", "name": "s", "parts": 2}, {"type": "relu"}]})",
          {"[model.layers[1].inputs]", "several outputs", "s.0"});
  refused(R"({"layers": [{"type": "split", "name": "s", "parts": 2}, {"type": "relu", "inputs": ["s"]}]})",
          {"[model.layers[1].inputs[0]]", "\"s.0\", \"s.1\""});
  refused(R"({"layers": [{"type": "split", "name": "s", "parts": 2}, {"type": "relu", "inputs": ["s.2"]}]})",
          {"[model.layers[1].inputs[0]]", "\"s\" has 2 outputs, \"s.0\" to \"s.1\""});
  refused(R"({"layers": [{"type": "split", "name": "s", "parts": 2}, {"type": "relu", "inputs": ["s.x"]}]})",
          {"[model.layers[1].inputs[0]]", "no number"});
  refused(R"({"layers": [{"type": "relu", "name": "r"}, {"type": "relu", "inputs": ["r.0"]}]})",
          {"[model.layers[1].inputs[0]]", "\"r\" has one output"});
  refused(R"({"layers": [{"type": "split", "parts": 2}]})", {"[model.layers[0]]", "\"output\": \"0.0\""});
  refused(R"({"layers": [{"type": "split", "parts": 3}], "output": "0.0"})",
          {"[model.layers[0].parts]", "3 does not divide axis -1 of [0,4]"});
  refused(R"({"layers": [{"type": "split", "sizes": [1, 2]}], "output": "0.0"})",
          {"[model.layers[0]]", "pieces sum to 3"});
  refused(R"({"layers": [{"type": "split", "parts": 2, "sizes": [2, 2]}], "output": "0.0"})",
          {"[model.layers[0].sizes]", "either"});
  refused(R"({"layers": [{"type": "split", "parts": 2, "axis": 0}], "output": "0.0"})",
          {"[model.layers[0].axis]", "batch"});
}

TEST_CASE("a graph takes fields of the batch and gives several results, all by name") {
  const DataInfo data{
      .sample = {},
      .fields = {{"image", {4, 4, 2}}, {"unused", {7}}, {"noise", {6}}, {"tokens", {5}, DType::i64}}};
  const auto model = build(json::parse(R"({"layers": [
    {"type": "linear", "name": "up", "out_features": 32, "inputs": ["noise"]},
    {"type": "reshape", "name": "spread", "shape": [4, 4, 2]},
    {"type": "concat", "name": "both", "inputs": ["image", "spread"]},
    {"type": "conv2d", "name": "conv", "out_channels": 3, "kernel": 1},
    {"type": "embedding", "name": "words", "count": 9, "dim": 3, "inputs": ["tokens"]},
    {"type": "split", "name": "parts", "sizes": [1, 2], "inputs": ["words"]}],
    "outputs": ["conv", "parts.1"]})"),
                           data);
  auto* const graph = dynamic_cast<nn::Graph*>(model.get());
  REQUIRE(graph != nullptr);
  CHECK(graph->inputs() == std::vector<std::string>{"image", "noise", "tokens"});
  CHECK(graph->outputs() == std::vector<std::string>{"conv", "parts.1"});
  const FieldInfo inputs[] = {data.fields[0], data.fields[2], data.fields[3]};
  CHECK(output_shapes(*model, inputs) == std::vector<Shape>{{4, 4, 3}, {5, 2}});
  const Tensor image = Tensor::full({3, 4, 4, 2}, 0.5), noise = Tensor::full({3, 6}, -0.25),
               tokens = Tensor::full({3, 5}, 2, {.dtype = DType::i64});
  const nn::NamedTensors y =
      (*graph)({{"image", image}, {"noise", noise}, {"tokens", tokens}, {"label", image}});
  CHECK(y.at("conv").shape() == Shape{3, 4, 4, 3});
  CHECK(y.at("parts.1").shape() == Shape{3, 5, 2});
  backward(add(sum(y.at("conv")), sum(y.at("parts.1"))));
  for (const Parameter& parameter : model->parameters()) CHECK(parameter.gradient().defined());

  const auto refused = [&](const char* text, std::initializer_list<const char*> parts) {
    check_error(text, parts, data);
  };
  refused(R"({"layers": [{"type": "relu", "inputs": ["imgae"]}]})",
          {"[model.layers[0].inputs[0]]", "did you mean \"image\""});
  refused(R"({"layers": [{"type": "relu", "name": "noise"}]})",
          {"[model.layers[0].name]", "\"noise\" is the name of an input already"});
  refused(R"({"layers": [{"type": "relu", "name": "a"}], "outputs": ["a", "a"]})",
          {"[model.outputs[1]]", "named twice"});
  refused(R"({"layers": [{"type": "relu", "name": "a"}], "outputs": ["a", "image"]})",
          {"[model.outputs[1]]", "\"image\" is an input"});
  refused(R"({"layers": [{"type": "relu", "name": "a"}], "outputs": []})", {"[model.outputs]"});
  refused(R"({"layers": [{"type": "relu", "name": "a"}], "output": "a", "outputs": ["a"]})",
          {"[model.outputs]", "either"});
  refused(R"({"layers": [{"type": "split", "name": "s", "parts": 2}], "outputs": ["s.5"]})",
          {"[model.outputs[0]]", "has 2 outputs"});
  refused(R"({"layers": [{"type": "relu", "name": "a"}, {"type": "relu", "name": "b", "inputs": ["input"]}],
              "outputs": ["a"]})",
          {"[model.layers[1]]", "not used"});
}

TEST_CASE("fields change nothing of a model that takes the first one alone") {
  const char* text = R"({"layers": [
    {"type": "conv2d", "out_channels": 4, "kernel": 3}, {"type": "relu", "name": "r"},
    {"type": "flatten"}, {"type": "linear", "out_features": 10}]})";
  const auto values = [&](const DataInfo& data) {
    const RandomScope scope(3, 0, 0);
    const auto model = build(json::parse(text), data);
    CHECK(dynamic_cast<nn::Sequential*>(model.get()) != nullptr);
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model->parameters())
      all.push_back(parameter.value().to_vector<double>());
    return all;
  };
  CHECK(values(kImages) ==
        values({.sample = {}, .classes = 10, .fields = {{"image", {28, 28, 1}}, {"z", {3}}}}));
}

TEST_CASE("layers nest and blocks repeat") {
  const auto model = built(R"({"layers": [
    {"type": "sequential", "name": "stem", "layers": [
      {"type": "conv2d", "out_channels": 4, "kernel": 3}, {"type": "relu"}]},
    {"type": "basic_block", "channels": 8, "stride": 2},
    {"type": "bottleneck", "channels": 4},
    {"type": "global_avg_pool2d"}]})");
  CHECK(output_shape(*model, {28, 28, 1}) == Shape{16});
  CHECK(model->find("stem.0") != nullptr);
  CHECK(model->find("1.downsample.0") != nullptr);
}

TEST_CASE("whole numbers are integers however they are written") {
  const auto model = built(R"({"layers": [
    {"type": "sequential", "layers": [
      {"type": "conv2d", "out_channels": 4.0, "kernel": [3.0, 3e0]}, {"type": "dropout", "p": 0.0}]},
    {"type": "global_avg_pool2d"}, {"type": "linear", "out_features": 1e1}]})");
  CHECK(output_shape(*model, {28, 28, 1}) == Shape{10});
  CHECK(output_shape(*built(R"({"name": "resnet20", "num_classes": 10.0, "width": 8e0})"), {28, 28, 1}) ==
        Shape{10});
  check_error(R"({"name": "mlp", "hidden": [32, 2.5]})",
              {"[model.hidden[1]]", "expected integer in [1, 16777216], got 2.5"});
  check_error(R"({"name": "resnet20", "num_classes": 1e20})",
              {"[model.num_classes]", "expected integer", "1e+20"});
  check_error(R"({"name": "resnet20", "num_classes": 18446744073709551615})", {"[model.num_classes]"});
  CHECK(output_shape(*built(R"({"layers": [{"type": "relu"}], "input_shape": [5.0]})", {}), {5}) == Shape{5});
}

TEST_CASE("every layer type can be built, runs forward and backward") {
  // The options without which a type cannot be, and the input it takes.
  const std::map<std::string, std::pair<const char*, Shape>> samples{
      {"linear", {R"({"out_features": 3})", {6}}},
      {"conv2d", {R"({"out_channels": 3, "kernel": 3})", {8, 8, 2}}},
      {"conv1d", {R"({"out_channels": 3, "kernel": 3, "padding": "same"})", {8, 2}}},
      {"conv_transpose2d", {R"({"out_channels": 3, "kernel": 2, "stride": 2})", {4, 4, 2}}},
      {"embedding", {R"({"count": 5, "dim": 3})", {6}}},
      {"self_attention", {R"({"heads": 2, "causal": true, "dropout": 0.5})", {5, 6}}},
      {"group_norm", {R"({"groups": 2})", {4, 4, 4}}},
      {"layer_norm", {R"({"axes": 2})", {4, 4, 4}}},
      {"max_pool2d", {R"({"kernel": 3, "stride": 2, "padding": 1})", {8, 8, 2}}},
      {"avg_pool2d", {R"({"kernel": 2, "count_include_pad": false})", {8, 8, 2}}},
      {"adaptive_avg_pool2d", {R"({"size": [2, 3]})", {7, 8, 2}}},
      {"reshape", {R"({"shape": [4, -1]})", {8, 8, 2}}},
      {"cast", {R"({"dtype": "bf16"})", {4, 4, 2}}},
      {"split", {R"({"parts": 2, "name": "s"})", {4, 4, 2}}},
      {"upsample", {R"({"scale": 2, "mode": "bilinear"})", {4, 4, 2}}},
      {"prelu", {R"({"per_channel": true})", {4, 4, 2}}},
      {"basic_block", {R"({"channels": 4, "stride": 2})", {8, 8, 2}}},
      {"bottleneck", {R"({"channels": 4})", {8, 8, 2}}}};
  for (const LayerType& type : layer_types().entries()) {
    INFO(type.name);
    const auto sample = samples.find(type.name);
    json layer = sample == samples.end() ? json::object() : json::parse(sample->second.first);
    const Shape shape = sample == samples.end() ? Shape{4, 4, 2} : sample->second.second;
    layer["type"] = type.name;
    for (int i = 0; i < type.min_inputs && type.min_inputs > 1; ++i) layer["inputs"].push_back("input");
    const DType dtype = type.name == "embedding" ? DType::i64 : DType::f32;
    json list{{"layers", {layer}}};
    if (type.several_outputs) list["output"] = "s.1";
    const auto model = build(list, {.sample = shape, .dtype = dtype});
    const RandomScope random(1, 0, 0);
    const Tensor values = Tensor::full(shape.inserted(0, 2), 0.5);
    const Tensor x =
        dtype == DType::i64 ? Tensor::zeros(shape.inserted(0, 2), {.dtype = dtype}) : leaf(values);
    const Tensor y = (*model)(x);
    CHECK(y.shape().without(0) == output_shape(*model, shape, dtype));
    if (type.name != "identity") backward(sum(cast(y, DType::f32)));
    for (const Parameter& parameter : model->parameters()) CHECK(parameter.gradient().defined());
  }
}

TEST_CASE("a cast layer changes the type of what follows, and its gradient comes back as it was") {
  const DataInfo vectors{.sample = {3}, .dtype = DType::f32, .classes = 3};
  const Tensor x = Tensor::from(std::vector<float>{-2.0f, 0.1f, 1.003f}, {1, 3});
  for (const auto& [name, dtype] :
       {std::pair{"fp16", DType::f16}, std::pair{"bf16", DType::bf16}, std::pair{"fp32", DType::f32}}) {
    const auto model =
        build({{"layers", {{{"type", "cast"}, {"dtype", name}}, {{"type", "tanh"}}}}}, vectors);
    CHECK(model->find("0")->describe() == fmt::format("Cast({})", name_of(dtype)));
    const Tensor in = leaf(x), y = (*model)(in);
    CHECK(y.dtype() == dtype);
    CHECK(y.to_vector<double>() == tanh(cast(x, dtype)).to_vector<double>());
    backward(sum(cast(y, DType::f32)));
    CHECK(gradient_of(in).dtype() == DType::f32);
  }
  check_error(R"({"layers": [{"type": "cast"}]})", {"[model.layers[0].dtype]"});
  check_error(R"({"layers": [{"type": "cast", "dtype": "f16"}]})",
              {"[model.layers[0].dtype]", "one of fp16, bf16, fp32"});
  check_error(R"({"layers": [{"type": "cast", "dtype": "fp16"}]})",
              {"[model.layers[0]]", "expects a floating"},
              {.sample = {6}, .dtype = DType::i64, .classes = 3});
}

TEST_CASE("products take a cast input beside weights in f32") {
  const auto model = built(R"({"layers": [
    {"type": "cast", "dtype": "fp16"},
    {"type": "conv2d", "out_channels": 4, "kernel": 3, "padding": "same"},
    {"type": "conv_transpose2d", "out_channels": 4, "kernel": 2, "stride": 2},
    {"type": "batch_norm"}, {"type": "cast", "dtype": "bf16"}, {"type": "max_pool2d", "kernel": 2},
    {"type": "flatten"}, {"type": "linear", "out_features": 10}]})");
  CHECK(output_shape(*model, {28, 28, 1}) == Shape{10});
  const Tensor x = leaf(Tensor::full({2, 28, 28, 1}, 0.5));
  backward(sum((*model)(x)));
  for (const Parameter& parameter : model->parameters()) CHECK(parameter.gradient().dtype() == DType::f32);
  CHECK(gradient_of(x).defined());
}

TEST_CASE("a layer computes the form it was asked for") {
  const DataInfo vectors{.sample = {3}, .dtype = DType::f32, .classes = 3};
  const Tensor x = Tensor::from(std::vector<float>{-2.0f, 0.7f, 1.6f}, {1, 3});
  const auto of = [&](const char* layer) {
    const auto model = built(layer, vectors);
    return (*model)(x).to_vector<float>();
  };
  CHECK(of(R"({"layers": [{"type": "gelu"}]})") == gelu(x, GeluForm::erf).to_vector<float>());
  CHECK(of(R"({"layers": [{"type": "gelu", "form": "tanh"}]})") ==
        gelu(x, GeluForm::tanh).to_vector<float>());
  CHECK(gelu(x, GeluForm::erf).to_vector<float>() != gelu(x, GeluForm::tanh).to_vector<float>());
  CHECK(of(R"({"layers": [{"type": "elu", "alpha": 0.5}]})") == elu(x, 0.5).to_vector<float>());
  CHECK(of(R"({"layers": [{"type": "leaky_relu", "negative_slope": 0.3}]})") ==
        leaky_relu(x, 0.3).to_vector<float>());
  CHECK(of(R"({"layers": [{"type": "softplus", "beta": 2.0, "threshold": 1.0}]})") ==
        softplus(x, 2.0, 1.0).to_vector<float>());
}

TEST_CASE("LeNet-5 takes images of any proportion") {
  for (const Shape& sample : {Shape{28, 40, 1}, Shape{40, 28, 1}, Shape{12, 60, 1}}) {
    const auto model = build({{"name", "lenet5"}}, {.sample = sample, .dtype = DType::f32, .classes = 10});
    CHECK((*model)(Tensor::zeros(sample.inserted(0, 2))).shape() == Shape{2, 10});
  }
}

TEST_CASE("registered models take options and what is known of the data") {
  const auto model = built(R"({"name": "resnet20", "width": 4})");
  CHECK(model->find("fc")->describe() == "Linear(16 → 10)");
  CHECK(model->find("conv1")->describe() == "Conv2d(1 → 4, 3×3, padding 1, no bias)");
  CHECK(built(R"({"name": "resnet20", "num_classes": 100})")->find("fc")->describe() == "Linear(64 → 100)");
  const auto mlp = built(
      R"({"name": "mlp", "hidden": [32, 16], "activation": "tanh", "batch_norm": true, "dropout": 0.5})");
  CHECK(output_shape(*mlp, {28, 28, 1}) == Shape{10});
  CHECK(mlp->find("fc1")->describe() == "Linear(784 → 32)");
  CHECK(mlp->find("activation2")->describe() == "Tanh");
  CHECK(built(R"({"name": "mlp", "hidden": []})")->parameter_count() == 7850);
  const auto lenet = built(R"({"name": "lenet5"})");
  CHECK(lenet->parameter_count() == 61'706);
  CHECK(build(json{{"name", "lenet5"}}, {.sample = {32, 32, 3}})->find("fc1")->describe() ==
        "Linear(400 → 120)");
  for (const ModelInfo& info : registry().entries()) CHECK_FALSE(info.help.empty());
}

TEST_CASE("a model serves the task that calls its interface, and another one is told which do") {
  const auto kinds = [](const char* name) { return registry().at(name).kind; };
  CHECK(kinds("mlp") == ModelKind::classifier);
  CHECK(kinds("unet") == ModelKind::segmenter);
  CHECK(kinds("dcgan") == ModelKind::adversarial_pair);
  CHECK(kinds("ssdlite320_mobilenet_v3") == ModelKind::detector);
  CHECK(kinds("language_model") == ModelKind::causal);
  CHECK(kinds("text_classifier") == ModelKind::text_encoder);
  CHECK(kinds("encoder_decoder") == ModelKind::sequence_to_sequence);
  const auto wanted = [](ModelKind kind) {
    DataInfo data = kImages;
    data.kind = kind;
    return data;
  };
  check_error(R"({"name": "resnet8"})",
              {"[model] resnet8 is no detector; use ssd_small, ", "residual network"},
              wanted(ModelKind::detector));
  check_error(R"({"name": "dcgan"})", {"dcgan is no classifier; use mlp, lenet5, "},
              wanted(ModelKind::classifier));
  check_error(R"({"name": "mlp"})", {"mlp is no language model; use language_model"},
              wanted(ModelKind::causal));
  // Classifiers and segmenters are told apart by their scores.
  CHECK(built(R"({"name": "lenet5"})", wanted(ModelKind::classifier)));
  check_error(R"({"name": "lenet5"})", {"10 classes of pixels"}, wanted(ModelKind::segmenter));
  const options::Value flatten = options::Given{{"type", "flatten"}};
  const ModelOptions layers{.spec = options::Given{{"layers", std::vector<options::Value>{flatten}}}};
  CHECK_THROWS_WITH(build_as<CausalModel>(layers, {.sample = {28, 28, 1}}),
                    Catch::Contains("a list of layers is no language model; use language_model"));
}

TEST_CASE("a model built twice under one seed is the same") {
  const auto weights = [] {
    const RandomScope scope(9, 0, 0);
    const auto model = built(R"({"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 10}]})");
    return model->parameters()[0].value().to_vector<float>();
  };
  CHECK(weights() == weights());
}

TEST_CASE("wrong keys and values name their place and what was expected") {
  check_error(R"({"name": "resnet21"})", {"[model.name]", "did you mean", "resnet2"});
  check_error(R"({"name": "resnet20", "num_clases": 10})",
              {"[model.num_clases]", "did you mean num_classes? (integer in [1, 16777216], or null)"});
  check_error(R"({"name": "resnet20", "num_classes": 5})", {"[model.num_classes]", "5", "10 classes"});
  check_error(R"({"name": "resnet20", "in_channels": 3})", {"[model.in_channels]", "3", "1"});
  check_error(R"({"name": "resnet20", "num_classes": "ten"})",
              {"[model.num_classes]", "expected integer", "\"ten\""});
  check_error(R"({"name": "resnet20", "num_classes": 0})", {"[model.num_classes]", "[1, 16777216]"});
  check_error(R"({"name": "resnet20", "shortcut": "none"})", {"[model.shortcut]", "projection, padding"});
  check_error(R"({"name": "resnet20", "surprise": null})", {"[model.surprise]", "unknown key"});
  check_error(R"({"name": "mlp", "hidden": [32, 0]})",
              {"[model.hidden[1]]", "expected integer in [1, 16777216]"});
  check_error(R"({"name": "mlp", "hidden": 32})", {"[model.hidden]", "list of integer"});
  check_error(R"({"name": "mlp", "hidden": [32, "a"]})", {"[model.hidden[1]]"});
  check_error(R"({"name": "resnet20", "layers": [{"type": "relu"}]})", {"[model]", "either"});
  check_error(R"({})", {"[model]", "either"});
  check_error(R"([])", {"[model]"});
  check_error(R"({"name": 3})", {"[model.name]", "expected a text, got 3"});
  check_error(R"({"layers": [{"type": "conv3d"}]})", {"[model.layers[0].type]", "did you mean \"conv"});
  check_error(R"({"layers": [{"typ": "relu"}]})", {"[model.layers[0].type]"});
  check_error(R"({"layers": ["relu"]})", {"[model.layers[0]]"});
  check_error(R"({"layers": []})", {"[model.layers]"});
  check_error(R"({"layers": [{"type": "relu"}], "outptu": 3})",
              {"[model.outptu]", "did you mean \"output\""});
  check_error(R"({"layers": [{"type": "relu"}, {"type": "conv2d", "out_channels": 4, "kernal": 3}]})",
              {"[model.layers[1].kernal]", "did you mean kernel?"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4}]})",
              {"[model.layers[0].kernel]", "required"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": [3, 3, 3]}]})",
              {"[model.layers[0].kernel]", "integer in [1, 16777216], or a list of up to 2", "[3,3,3]"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": [3]}]})",
              {"[model.layers[0].kernel]", "give all 2"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": [3, 0]}]})",
              {"[model.layers[0].kernel]", "integer in [1, 16777216]", "[3,0]"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": 3.5}]})",
              {"[model.layers[0].kernel]"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": 4, "padding": "same"}]})",
              {"[model.layers[0].padding]", "odd"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": 3, "in_channels": 2}]})",
              {"[model.layers[0].in_channels]", "2", "the input has 1"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 1e30, "kernel": 3}]})",
              {"[model.layers[0].out_channels]"});
  check_error(R"({"layers": [{"type": "dropout", "p": 1}]})", {"[model.layers[0].p]"});
  check_error(R"({"layers": [{"type": "relu", "name": "a b"}]})", {"[model.layers[0].name]"});
  check_error(R"({"layers": [{"type": "relu", "name": "input"}]})", {"[model.layers[0].name]"});
}

TEST_CASE("layers that do not fit are errors at their place") {
  check_error(
      R"({"layers": [{"type": "max_pool2d", "kernel": 2}, {"type": "conv2d", "out_channels": 4, "kernel": 30}]})",
      {"[model.layers[1]]", "conv2d"});
  check_error(R"({"layers": [{"type": "flatten"}, {"type": "max_pool2d", "kernel": 2}]})",
              {"[model.layers[1]]"});
  check_error(R"({"layers": [{"type": "group_norm", "groups": 2}]})", {"[model.layers[0]]", "2 groups"});
  check_error(R"({"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 5}]})",
              {"[model]", "10 classes"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 4, "kernel": 3},
                             {"type": "linear", "out_features": 10}]})",
              {"[model.layers[1]]", "[26,26,10]", R"({"type": "flatten"})", "before this linear layer"});
  check_error(R"({"layers": [{"type": "conv2d", "out_channels": 10, "kernel": 3}]})",
              {"[model]", "[26,26,10]", R"({"type": "flatten"})", R"("out_features": 10})"});
  check_error(R"({"layers": [{"type": "relu"}]})", {"[model.input_shape]"}, {});
  check_error(R"({"name": "resnet20", "input_shape": [0, 3]})",
              {"[model.input_shape[0]]", "at least 1, got 0"}, {});
  check_error(R"({"name": "resnet20", "input_shape": 28})", {"[model.input_shape]", "such as [28, 28, 1]"},
              {});
  check_error(R"({"layers": [{"type": "relu"}], "input_shape": [32, 32, 3]})",
              {"[model.input_shape]", "[28,28,1]"});
  check_error(R"({"name": "lenet5"})", {"[model]"}, {.sample = {4, 4, 1}});
  CHECK(output_shape(*built(R"({"layers": [{"type": "relu"}], "input_shape": [5], "output": null})", {}),
                     {5}) == Shape{5});
}

TEST_CASE("a layer that would mix the samples of a batch is an error") {
  for (const char* type : {"softmax", "log_softmax"}) {
    for (const char* axis : {"0", "-4"})
      check_error(fmt::format(R"({{"layers": [{{"type": "{}", "axis": {}}}]}})", type, axis).c_str(),
                  {"[model.layers[0].axis]", axis, "is the batch", "count from 1, or back from -1"});
  }
  check_error(R"({"layers": [{"type": "concat", "inputs": ["input", "input"], "axis": 0}]})",
              {"[model.layers[0].axis]", "is the batch"});
  for (int axis = 1; axis < 4; ++axis)
    CHECK(built(fmt::format(R"({{"layers": [{{"type": "softmax", "axis": {}}}, {{"type": "flatten"}},
                                            {{"type": "linear", "out_features": 10}}]}})",
                            axis)
                    .c_str()) != nullptr);
  // [N,1,5] + [N,5] broadcasts N against the 1.
  check_error(R"({"layers": [{"type": "linear", "out_features": 5, "name": "a"},
                             {"type": "reshape", "shape": [5], "name": "b"},
                             {"type": "add", "inputs": ["a", "b"]}]})",
              {"[model.layers[2]]", "add of [0,1,5] and [0,5] gives [0,0,5]", "mixes the samples"},
              {.sample = {1, 3}});
}

TEST_CASE("upsampling says which coordinates it takes") {
  const DataInfo data{.sample = {4, 4, 2}};
  const auto made = [&](const char* options) { return build({{"layers", {json::parse(options)}}}, data); };
  const Tensor x = Tensor::from(std::vector<float>(32, 1.0F), {1, 4, 4, 2});
  CHECK((*made(R"({"type": "upsample", "scale": 1.3, "recompute_scale_factor": false})"))(x).shape() ==
        Shape{1, 5, 5, 2});
  check_error(R"({"layers": [{"type": "upsample", "size": 8, "recompute_scale_factor": false}]})",
              {"[model.layers[0].recompute_scale_factor]", "\"scale\""}, data);
  check_error(R"({"layers": [{"type": "upsample", "scale": 1.3, "mode": "bilinear", "align_corners": true,
                              "recompute_scale_factor": false}]})",
              {"[model.layers[0].recompute_scale_factor]", "align_corners"}, data);
}

TEST_CASE("indices reach an embedding, and no other layer without one") {
  const DataInfo data{.sample = {6}, .dtype = DType::i64, .classes = 3};
  const auto model = build(json::parse(R"({"layers": [{"type": "embedding", "count": 5, "dim": 4},
                                                      {"type": "flatten"},
                                                      {"type": "linear", "out_features": 3}]})"),
                           data);
  CHECK(output_shape(*model, data.sample, data.dtype) == Shape{3});
  check_error(R"({"layers": [{"type": "linear", "out_features": 3}]})", {"[model.layers[0]]", "i64"}, data);
  check_error(R"({"name": "mlp"})", {"[model]", "i64"}, data);
  check_error(R"({"layers": [{"type": "embedding", "count": 5, "dim": 3}]})",
              {"[model.layers[0]]", "i64 or i32, got f32"});
}

TEST_CASE("cycles, unknown inputs and unused layers are errors") {
  check_error(R"({"layers": [
      {"type": "add", "name": "a", "inputs": ["input", "c"]}, {"type": "relu", "name": "b"},
      {"type": "relu", "name": "c"}]})",
              {"cycle", "a → b → c → a"});
  check_error(R"({"layers": [{"type": "add", "name": "a", "inputs": ["a", "input"]}]})", {"cycle", "a → a"});
  check_error(
      R"({"layers": [{"type": "relu", "name": "first"}, {"type": "add", "inputs": ["frist", "input"]}]})",
      {"[model.layers[1].inputs[0]]", "did you mean \"first\""});
  check_error(R"({"layers": [{"type": "relu", "name": "a"}, {"type": "relu", "name": "dead"},
                             {"type": "relu", "inputs": ["a"]}]})",
              {"[model.layers[1]]", "dead", "not used"});
  check_error(R"({"layers": [{"type": "relu", "name": "a"}, {"type": "relu", "name": "a"}]})",
              {"[model.layers[1].name]", "model.layers[0]"});
  check_error(R"({"layers": [{"type": "add", "inputs": ["input"]}]})",
              {"[model.layers[0].inputs]", "2 to 64"});
  check_error(R"({"layers": [{"type": "relu", "inputs": ["input", "input"]}]})",
              {"[model.layers[0].inputs]"});
  check_error(R"({"layers": [{"type": "add"}]})", {"[model.layers[0].inputs]"});
  check_error(R"({"layers": [{"type": "relu", "inputs": []}]})", {"[model.layers[0].inputs]"});
  check_error(R"({"layers": [{"type": "relu", "inputs": [3]}]})", {"[model.layers[0].inputs[0]]"});
}

TEST_CASE("layers nest to a limit") {
  json layer{{"type", "relu"}};
  for (int i = 0; i < 40; ++i) layer = {{"type", "sequential"}, {"layers", {layer}}};
  CHECK_THROWS_WITH(build({{"layers", {layer}}}, kImages), Catch::Contains("nest deeper"));
  layer = {{"type", "global_avg_pool2d"}};
  const DataInfo vectors{.sample = {4, 4, 2}, .dtype = DType::f32, .classes = 2};
  for (int i = 0; i < 16; ++i) layer = {{"type", "sequential"}, {"layers", {layer}}};
  CHECK_NOTHROW(build({{"layers", {layer}}}, vectors));
  layer = {{"type", "sequential"}, {"layers", {layer}}};
  CHECK_THROWS_WITH(build({{"layers", {layer}}}, vectors), Catch::Contains("nest deeper than 16"));
}

TEST_CASE("options describe themselves consistently") {
  for (const LayerType& type : layer_types().entries()) {
    CHECK_FALSE(type.help.empty());
    for (const options::Key& key : type.schema.keys) {
      INFO(type.name << "." << key.name);
      CHECK_FALSE(key.help.empty());
      CHECK((!key.required || key.default_value == options::Value()));
      CHECK(key.type.choices.empty() == (key.type.kind != options::Type::Kind::string));
    }
  }
  CHECK_THROWS_AS(new_activation("conv2d"), UserError);
}
