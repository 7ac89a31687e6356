// Summaries: parameters, arithmetic and memory of known networks.
#include "models/summary.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/ops/matmul.h"
#include "core/shapes_backend.h"
#include "models/builder.h"
#include "models/dcgan.h"
#include "models/encoder_decoder.h"
#include "models/language_model.h"
#include "models/resnet.h"
#include "models/text_classifier.h"
#include "models/unet.h"
#include "nn/device.h"
#include "nn/layers.h"

using namespace tandem;
using namespace tandem::models;

TEST_CASE("a summary lists layers with their shapes, parameters and arithmetic") {
  nn::Sequential net;
  net.add("conv", std::make_shared<nn::Conv2d>(3, 8, 3, nn::ConvOptions{.padding = {1, 1}, .bias = false}));
  net.add("bn", std::make_shared<nn::BatchNorm>(8, nn::BatchNormLayerOptions{.relu = true}));
  net.add("pool", std::make_shared<nn::GlobalAvgPool2d>());
  net.add("fc", std::make_shared<nn::Linear>(8, 5));
  net.freeze("fc");
  const ModelSummary summary = summarise(net, {6, 7, 3});
  REQUIRE(summary.layers.size() == 5);
  const LayerSummary& conv = summary.layers[1];
  CHECK(conv.name == "conv");
  CHECK(conv.output == Shape{2, 6, 7, 8});
  CHECK(conv.flop == 2 * 42 * 8 * 27);
  CHECK(conv.parameters == 216);
  CHECK(conv.output_bytes == 42 * 8 * 4);
  CHECK(conv.calls == 1);
  CHECK(summary.layers[4].flop == 2 * 40);
  CHECK(summary.layers[4].trainable == 0);
  CHECK(summary.flop == 2 * (42 * 8 * 27 + 40));
  CHECK(summary.layers[0].flop == summary.flop);
  CHECK(summary.parameters == 216 + 16 + 45);
  CHECK(summary.trainable == 216 + 16);
  CHECK(summary.parameter_bytes == 4 * summary.parameters);
  CHECK(summary.gradient_bytes == 4 * summary.trainable);
  CHECK(summary.statistic_bytes == 64);
  // Backward needs at least what the convolution gave, and no more than a few times the activations.
  CHECK(summary.saved_bytes >= 42 * 8 * 4);
  CHECK(summary.saved_bytes < 5 * 42 * 8 * 4);
}

TEST_CASE("a module that calls itself counts what it does once") {
  struct Again final : nn::Module {
    std::shared_ptr<nn::Linear> linear = add_child("linear", std::make_shared<nn::Linear>(4, 5));
    bool inside = false;
    Tensor forward(const Tensor& x) override {
      if (inside) return (*linear)(x);
      inside = true;
      const Tensor y = (*this)(x);
      inside = false;
      return y;
    }
  } again;
  const ModelSummary summary = summarise(again, {4});
  CHECK(summary.layers[0].calls == 2);
  CHECK(summary.layers[0].flop == 2 * 20);
  CHECK(summary.layers[1].flop == 2 * 20);
}

TEST_CASE("a summary leaves the model as it was") {
  const auto model = resnet(20, {.in_channels = 1, .width = 4});
  model->find("layer1")->eval();
  const auto statistics = [&] {
    std::vector<double> all;
    for (const nn::Statistic& s : model->statistics()) {
      for (const Tensor& t : {s.live, s.next}) {
        const auto values = t.to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  };
  const auto before = statistics();
  summarise(*model, {8, 8, 1});
  CHECK(statistics() == before);
  CHECK(*model->counters()[0].next == 0);
  CHECK(model->training());
  CHECK_FALSE(model->find("layer1")->training());
}

TEST_CASE("a model without elements has the summary of one with them, without times") {
  const auto built = [](Device device) {
    const nn::BuildDevice building(device);
    return resnet(20, {.in_channels = 3, .width = 4});
  };
  const ModelSummary real = summarise(*built({}), {16, 16, 3}),
                     shapes = summarise(*built(kShapes), {16, 16, 3});
  REQUIRE(shapes.layers.size() == real.layers.size());
  for (std::size_t i = 0; i < real.layers.size(); ++i) {
    CHECK(shapes.layers[i].output == real.layers[i].output);
    CHECK(shapes.layers[i].parameters == real.layers[i].parameters);
    CHECK(shapes.layers[i].flop == real.layers[i].flop);
    CHECK(shapes.layers[i].calls == real.layers[i].calls);
  }
  CHECK(shapes.parameter_bytes == real.parameter_bytes);
  CHECK(shapes.statistic_bytes == real.statistic_bytes);
  CHECK(shapes.traffic_bytes == real.traffic_bytes);
  CHECK(shapes.saved_bytes == real.saved_bytes);
  CHECK(shapes.times.empty());
  CHECK_FALSE(real.times.empty());
}

TEST_CASE("ResNet-50 takes 4.1 billion multiply-adds for an image of 224×224") {
  const auto model = resnet(50);
  CHECK(static_cast<double>(summarise(*model, {224, 224, 3}, DType::f32, 1).flop) / 2e9 ==
        Approx(4.09).epsilon(0.01));
}

TEST_CASE("transposed convolutions, sequences and products are counted") {
  nn::ConvTransposeOptions options;
  options.stride = {2, 2};
  nn::ConvTranspose2d up(3, 5, {2, 2}, options);
  CHECK(summarise(up, {4, 4, 3}).flop == 2 * 16 * 3 * 4 * 5);
  nn::Conv1d conv(3, 5, 3);
  CHECK(summarise(conv, {10, 3}).flop == 2 * 8 * 5 * 9);
}

namespace {

// By name, from shapes alone.
double flop_of(const char* json, Index size) {
  const nn::BuildDevice building(kShapes);
  const bool detector = std::string_view(json).find("ssd") != std::string_view::npos;
  const DataInfo data{.sample = {size, size, 3}, .dtype = DType::f32, .classes = detector ? 91 : 1000};
  const auto model = build(nlohmann::json::parse(json), data);
  return static_cast<double>(summarise(*model, data.sample).flop);
}

// Of a cell with as many gates, and its outputs.
Index cell(Index gates, Index inputs, Index units) { return gates * units * (inputs + units); }

}  // namespace

// Multiply-adds that torchvision 0.20 states with its weights ("_ops": 1.814, 34.858, 0.583), for 224, 300
// and 320 pixels.
TEST_CASE("classifiers and detectors take the arithmetic that torchvision says", "[summary]") {
  CHECK(flop_of(R"({"name": "resnet18", "num_classes": 1000})", 224) / 2e9 == Approx(1.814).epsilon(0.005));
  CHECK(flop_of(R"({"name": "ssd300_vgg16", "num_classes": 91})", 300) / 2e9 ==
        Approx(34.858).epsilon(0.005));
  CHECK(flop_of(R"({"name": "ssdlite320_mobilenet_v3", "num_classes": 91})", 320) / 2e9 ==
        Approx(0.583).epsilon(0.02));
}

TEST_CASE("every layer of a U-Net and a DCGAN takes its filter at each place", "[summary]") {
  const auto check = [](nn::Module& model, const Shape& sample) {
    const auto summary = summarise(model, sample);
    std::int64_t sum = 0;
    Index rows = sample.rank() == 3 ? sample[0] : 1;
    for (const LayerSummary& layer : summary.layers) {
      if (!layer.leaf || layer.output.rank() != 4) continue;
      const bool up = layer.description.find("ConvTranspose2d") != std::string::npos;
      if (up || layer.description.find("Conv2d") != std::string::npos) {
        const Index filter =
            dynamic_cast<nn::Module&>(*model.find(layer.name)).own_parameters()[0].second.value().numel();
        const Index places = up ? rows * rows : layer.output[1] * layer.output[2];
        INFO(layer.name << " " << layer.description);
        CHECK(layer.flop == 2 * filter * places);
        sum += 2 * filter * places;
      }
      rows = layer.output[1];
    }
    CHECK(sum > 0);
    CHECK(summary.flop == sum);
  };
  UNet net({.in_channels = 1, .num_classes = 3, .width = 4, .levels = 2});
  check(net, {16, 16, 1});
  check(*dcgan_generator({.width = 4}), {1, 1, 100});
  check(*dcgan_discriminator({.width = 4}), {32, 32, 1});
}

TEST_CASE("a sample of a sequence has all of its steps", "[summary]") {
  constexpr Index kSteps = 6, kWords = 11, kEmbedding = 5, kUnits = 7;
  const auto summary_of = [&](nn::Module& model) {
    const ModelSummary one = summarise(model, {kSteps}, DType::i64, 1, 1);
    const ModelSummary several = summarise(model, {kSteps}, DType::i64, 3, 1);
    CHECK(one.flop == several.flop);
    CHECK(one.steps == kSteps);
    return several;
  };
  LanguageModel language({.vocabulary = kWords, .embedding = kEmbedding, .units = kUnits, .layers = 2});
  CHECK(summary_of(language).flop ==
        2 * kSteps * (cell(4, kEmbedding, kUnits) + cell(4, kUnits, kUnits) + kUnits * kWords));

  TextClassifier text({.vocabulary = kWords,
                       .classes = 3,
                       .embedding = kEmbedding,
                       .units = kUnits,
                       .cell = RnnCell::gru,
                       .bidirectional = true});
  CHECK(summary_of(text).flop == 2 * (2 * kSteps * cell(3, kEmbedding, kUnits) + 2 * kUnits * 3));

  // Two layers on each side, of which the encoder's first reads in both directions; the words of the source
  // as the target.
  for (const auto kind : {AttentionKind::bahdanau_normalised, AttentionKind::luong_general}) {
    EncoderDecoder translator({.source_words = kWords,
                               .target_words = kWords,
                               .embedding = kEmbedding,
                               .units = kUnits,
                               .encoder_layers = 2,
                               .decoder_layers = 2,
                               .attention = kind});
    const Index encoder = 2 * cell(4, kEmbedding, kUnits) + cell(4, 2 * kUnits, kUnits);
    const Index decoder = cell(4, kEmbedding, kUnits) + cell(4, 2 * kUnits, kUnits) + kUnits * kWords;
    const bool additive = kind == AttentionKind::bahdanau_normalised;
    const Index projections = (additive ? 2 : 1) * kUnits * kUnits;
    const Index pairs = 2 * kUnits;  // a score and a share of the context for each pair of words
    CHECK(summary_of(translator).flop ==
          2 * (kSteps * (encoder + decoder + projections) + kSteps * kSteps * pairs));
  }
}

TEST_CASE("self-attention counts its scores and sums beside its weights", "[summary]") {
  constexpr Index kSteps = 5, kFeatures = 6;
  nn::SelfAttention attention(kFeatures, {.heads = 2});
  const ModelSummary summary = summarise(attention, {kSteps, kFeatures});
  const Index projections = kSteps * kFeatures * 3 * kFeatures, output = kSteps * kFeatures * kFeatures;
  const Index scores_and_sums = 2 * kSteps * kSteps * kFeatures;
  CHECK(summary.flop == 2 * (projections + scores_and_sums + output));
  CHECK(summary.layers[0].own_flop == 2 * (projections + scores_and_sums));
}

TEST_CASE("products of a layer's children are not its own", "[summary]") {
  struct Both final : nn::Module {
    std::shared_ptr<nn::Linear> inner = add_child("inner", std::make_shared<nn::Linear>(4, 8));
    Parameter weight = add_parameter("weight", Parameter(nn::parameter_memory({3, 8})));
    Tensor forward(const Tensor& x) override { return linear((*inner)(x), weight.tensor()); }
  } both;
  const ModelSummary summary = summarise(both, {4});
  CHECK(summary.layers[0].flop == 2 * (32 + 24));
  CHECK(summary.layers[0].own_flop == 2 * 24);
  CHECK(summary.layers[1].own_flop == 2 * 32);
  CHECK(summary.layers[1].inputs == 4);
  // Channels of a group.
  nn::Conv2d depthwise(6, 6, 3, nn::ConvOptions{.groups = 6});
  const LayerSummary layer = summarise(depthwise, {5, 5, 6}).layers[0];
  CHECK(layer.inputs == 1);
  CHECK(layer.outputs == 1);
  nn::ConvTransposeOptions grouped;
  grouped.groups = 2;
  nn::ConvTranspose2d up(6, 4, {2, 2}, grouped);
  const LayerSummary transposed = summarise(up, {5, 5, 6}).layers[0];
  CHECK(transposed.inputs == 3);
  CHECK(transposed.outputs == 2);
}
