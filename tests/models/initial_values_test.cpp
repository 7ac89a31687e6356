// Default initial values: each parameter of each family against the distribution of PyTorch's layer, or of
// the network's original code.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <regex>

#include "core/random.h"
#include "models/registry.h"
#include "nn/layers/attention.h"

using namespace tandem;

namespace {

enum class Kind : std::uint8_t { uniform, normal };

// A constant has deviation 0.
struct Start {
  Kind kind = Kind::normal;
  double mean = 0.0, deviation = 0.0;
};

Start uniform(double bound) { return {Kind::uniform, 0.0, bound / std::sqrt(3.0)}; }
Start normal(double deviation, double mean = 0.0) { return {Kind::normal, mean, deviation}; }
Start constant(double value) { return {Kind::normal, value, 0.0}; }

// Weights [O,…,I]: in = elements of one output, out = elements of one input. `weight` is the shape of the
// weight of a bias's layer.
double fan_in(const Shape& weight) { return static_cast<double>(weight.numel() / weight[0]); }
double fan_out(const Shape& weight) {
  return static_cast<double>(weight.numel() / weight[weight.rank() - 1]);
}

// torch.nn.Linear, Conv2d and ConvTranspose2d, weight and bias: U(±1/√fan_in).
Start standard(const Shape& weight) { return uniform(1.0 / std::sqrt(fan_in(weight))); }
// kaiming_normal_(mode="fan_out", nonlinearity="relu").
Start he(const Shape& weight) { return normal(std::sqrt(2.0 / fan_out(weight))); }
Start xavier(const Shape& weight) { return uniform(std::sqrt(6.0 / (fan_in(weight) + fan_out(weight)))); }

// What parameters whose whole name matches start as. The first that matches counts.
struct Rule {
  const char* names;
  std::function<Start(const Shape& weight)> start;
};
using Rules = std::vector<Rule>;

std::function<Start(const Shape&)> always(const Start& start) {
  return [start](const Shape&) { return start; };
}
const auto kNought = always(constant(0.0)), kOne = always(constant(1.0));

// The shape of the weight that a bias stands beside; of a weight its own.
Shape weight_of(const nn::Module& module, const Parameter& parameter) {
  std::string name = parameter.name();
  if (name.ends_with("bias")) name.replace(name.size() - 4, 4, "weight");
  for (const Parameter& each : module.parameters())
    if (each.name() == name) return each.value().shape();
  return parameter.value().shape();
}

void check_start(const Parameter& parameter, const Start& start) {
  const auto values = parameter.value().to_vector<double>();
  const double n = static_cast<double>(values.size());
  double sum = 0.0, squares = 0.0, largest = 0.0;
  for (const double value : values) {
    sum += value;
    squares += (value - start.mean) * (value - start.mean);
    largest = std::max(largest, std::abs(value - start.mean));
  }
  INFO(parameter.name() << " " << to_string(parameter.value().shape()));
  if (start.deviation == 0.0) {
    CHECK(largest <= 1e-7);
    return;
  }
  const double variance = start.deviation * start.deviation;
  CHECK(std::abs(sum / n - start.mean) < 5.0 * start.deviation / std::sqrt(n));
  // The variance of squares is 2σ⁴ of a normal distribution and 0.8σ⁴ of a uniform one.
  const double kurtosis = start.kind == Kind::normal ? 2.0 : 0.8;
  CHECK(std::abs(squares / n / variance - 1.0) < 5.0 * std::sqrt(kurtosis / n));
  const double bound = start.deviation * std::sqrt(3.0);
  if (start.kind == Kind::uniform) {
    CHECK(largest <= bound * (1.0 + 1e-6));
  } else if (n > 1000) {
    CHECK(largest > bound);  // 8 % of a normal distribution lie outside
  }
}

void check_starts(const nn::Module& module, const Rules& rules) {
  for (const Parameter& parameter : module.parameters()) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& each) {
      return std::regex_match(parameter.name(), std::regex(each.names));
    });
    INFO(parameter.name());
    REQUIRE(rule != rules.end());
    check_start(parameter, rule->start(weight_of(module, parameter)));
  }
}

nn::ModulePtr drawn(const std::string& name, const options::Given& options,
                    const models::DataInfo& data = {}) {
  const RandomScope scope(7, 0, 0);
  return models::create(name, options, data);
}

// torch.nn.LSTM, GRU and RNN: weights and biases U(±1/√hidden_size), those of a projection too.
std::function<Start(const Shape&)> cells(double units) { return always(uniform(1.0 / std::sqrt(units))); }

}  // namespace

TEST_CASE("image classifiers start as PyTorch's layers and torchvision's ResNet do", "[models]") {
  const models::DataInfo grey{.sample = {28, 28, 1}, .classes = 10};
  check_starts(
      *drawn("mlp", {{"in_features", 784}, {"hidden", std::vector<Index>{64, 48}}, {"num_classes", 10}},
             grey),
      {{".*", standard}});
  check_starts(*drawn("lenet5", {}, grey), {{".*", standard}});
  for (const char* name : {"resnet20", "resnet18", "resnet50"})
    check_starts(*drawn(name, {{"in_channels", 3}, {"num_classes", 10}, {"width", 8}}),
                 {{"fc\\..*", standard},
                  {".*(bn[123]|downsample\\.1)\\.weight", kOne},
                  {".*\\.bias", kNought},
                  {".*conv[123]\\.weight|.*downsample\\.0\\.weight", he}});
}

TEST_CASE("a Vision Transformer starts as torchvision's", "[models]") {
  const auto filters = [](const Shape& weight) { return normal(1.0 / std::sqrt(fan_in(weight))); };
  check_starts(*drawn("vit", {{"patch", 8}, {"num_layers", 2}, {"width", 32}, {"heads", 4}},
                      {.sample = {64, 64, 3}, .classes = 10}),
               {{"class_token|heads\\..*", kNought},
                {"conv_proj\\.weight", filters},
                {"encoder\\.pos_embedding", always(normal(0.02))},
                {".*ln(_[12])?\\.weight", kOne},
                {".*mlp\\..*bias", always(normal(1e-6))},
                {".*bias", kNought},
                {".*out_proj\\.weight", standard},
                {".*(in_proj_|mlp\\..*)weight", xavier}});
}

TEST_CASE("a U-Net starts as PyTorch's layers do", "[models]") {
  check_starts(
      *drawn("unet", {{"in_channels", 1}, {"num_classes", 5}, {"width", 8}, {"levels", 2}}),
      {{".*double_conv\\.[14]\\.weight", kOne}, {".*double_conv\\.[14]\\.bias", kNought}, {".*", standard}});
}

TEST_CASE("a DCGAN starts as PyTorch's example does", "[models]") {
  const nn::ModulePtr gan = drawn("dcgan", {{"width", 16}, {"in_channels", 1}, {"image_size", 32}});
  for (const Parameter& each : gan->parameters()) {
    const bool norm = each.value().rank() == 1;
    check_start(each, each.name().ends_with("bias") ? constant(0.0) : normal(0.02, norm ? 1.0 : 0.0));
  }
}

TEST_CASE("detectors start as torchvision's, NVIDIA's and their bodies' sources do", "[models][detection]") {
  const options::Given classes{{"num_classes", 5}};
  const Rule heads{"head\\..*weight", xavier};
  check_starts(*drawn("ssd_small", classes),
               {heads,
                {".*\\.bias", kNought},
                {".*features\\.(1|3|5|7|9|11)\\.weight|.*extra.*\\.[13]\\.weight", kOne},
                {".*", he}});
  check_starts(*drawn("ssd300_resnet18", classes), {heads,
                                                    {".*additional_blocks.*\\.[03]\\.weight", xavier},
                                                    {".*\\.bias", kNought},
                                                    {".*conv[12]\\.weight|.*downsample\\.0\\.weight", he},
                                                    {".*", kOne}});
  // VGG-16's 13 convolutions as torchvision's vgg16, what SSD adds by Xavier's rule.
  check_starts(*drawn("ssd300_vgg16", classes), {heads,
                                                 {".*scale_weight", always(constant(20.0))},
                                                 {".*\\.bias", kNought},
                                                 {".*features.*|.*extra\\.0\\.[135]\\.weight", he},
                                                 {".*", xavier}});
  const nn::ModulePtr lite = drawn("ssdlite320_mobilenet_v3", classes);
  for (const Parameter& each : lite->parameters())
    check_start(each, each.value().rank() == 4           ? normal(0.03)
                      : each.name().ends_with(".weight") ? constant(1.0)
                                                         : constant(0.0));
}

TEST_CASE("a language model starts as PyTorch's layers do, and its decoder's bias at 0 with tied weights",
          "[models]") {
  const options::Given sizes{{"vocabulary", 100}, {"embedding", 24}, {"units", 32}, {"num_layers", 2}};
  const auto with = [&](const options::Given& further) {
    options::Given all = sizes;
    all.insert(all.end(), further.begin(), further.end());
    return drawn("language_model", all);
  };
  const Rule table{"encoder\\.weight", always(normal(1.0))};
  for (const char* cell : {"lstm", "gru", "rnn_tanh"})
    check_starts(*with({{"cell", cell}}), {table, {"rnn\\..*", cells(32)}, {"decoder\\..*", standard}});
  check_starts(*with({{"projection", 24}, {"tied", true}}),
               {table, {"rnn\\..*", cells(32)}, {"decoder\\.bias", kNought}});
}

TEST_CASE("a classifier of texts starts as PyTorch's layers do", "[models]") {
  check_starts(
      *drawn("text_classifier", {{"vocabulary", 100}, {"embedding", 24}, {"units", 32}, {"num_classes", 3}}),
      {{"embedding\\.weight", always(normal(1.0))}, {"rnn\\..*", cells(32)}, {"classifier\\..*", standard}});
}

TEST_CASE("an encoder-decoder starts as PyTorch's layers do, its normalised attention as GNMT's",
          "[models]") {
  for (const char* kind : {"bahdanau_normalised", "bahdanau", "luong_general", "luong_dot"})
    for (const bool tied : {false, true})
      check_starts(*drawn("encoder_decoder", {{"source_words", 90},
                                              {"target_words", 80},
                                              {"embedding", 32},
                                              {"units", 32},
                                              {"encoder_layers", 2},
                                              {"decoder_layers", 3},
                                              {"attention", kind},
                                              {"tied", tied}}),
                   {{".*embedder\\.weight", always(normal(1.0))},
                    {".*\\.(weight|bias)_[ih]h_l0(_reverse)?", cells(32)},
                    {".*linear_[qk]\\.weight", standard},
                    {".*linear_att", always(uniform(1.0 / std::sqrt(32.0)))},
                    {".*normalize_scalar", always(constant(1.0 / std::sqrt(32.0)))},
                    {".*normalize_bias", kNought},
                    {".*classifier\\.bias", tied ? kNought : std::function<Start(const Shape&)>(standard)},
                    {".*classifier\\.weight", standard}});
}

TEST_CASE("a translation Transformer starts as torch.nn.Transformer, its embeddings at 1/√width",
          "[models]") {
  for (const bool tied : {false, true})
    check_starts(*drawn("transformer", {{"source_words", 90},
                                        {"target_words", 80},
                                        {"encoder_layers", 1},
                                        {"decoder_layers", 2},
                                        {"width", 32},
                                        {"inner", 48},
                                        {"tied", tied}}),
                 {{".*embedding\\.weight", always(normal(1.0 / std::sqrt(32.0)))},
                  {".*norm[123]?\\.weight", kOne},
                  {".*bias", kNought},
                  {"generator\\.weight|.*(in_proj_|out_proj\\.|linear[12]\\.)weight", xavier}});
}

TEST_CASE("self-attention starts as torch.nn.MultiheadAttention does", "[models]") {
  const RandomScope scope(7, 0, 0);
  check_starts(nn::SelfAttention(32, {.heads = 4}),
               {{"in_proj_weight", xavier}, {".*bias", kNought}, {"out_proj\\.weight", standard}});
}

TEST_CASE("a number starts the weights of a text model uniform, whatever their layer", "[models]") {
  check_starts(
      *drawn("language_model", {{"vocabulary", 50}, {"embedding", 16}, {"units", 16}, {"init", 0.05}}),
      {{".*bias.*", kNought}, {".*", always(uniform(0.05))}});
  check_starts(
      *drawn("text_classifier", {{"vocabulary", 50}, {"embedding", 16}, {"units", 16}, {"init", 0.1}}),
      {{"embedding\\.weight", always(uniform(0.1))}, {"rnn\\..*", cells(16)}, {".*", standard}});
  check_starts(*drawn("encoder_decoder", {{"source_words", 50},
                                          {"target_words", 50},
                                          {"embedding", 16},
                                          {"units", 16},
                                          {"encoder_layers", 1},
                                          {"decoder_layers", 2},
                                          {"init", 0.1}}),
               {{".*bias_hh_.*|.*normalize_bias", kNought},
                {".*normalize_scalar", always(constant(0.25))},
                {".*", always(uniform(0.1))}});
}
