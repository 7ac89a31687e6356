// Summaries: parameters, arithmetic and memory of known networks.
#include "models/summary.h"

#include <catch2/catch.hpp>

#include "core/shapes_backend.h"
#include "models/resnet.h"
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
