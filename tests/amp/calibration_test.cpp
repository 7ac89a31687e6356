// Valid ranges of loss scales, from histograms of gradients.
#include "amp/calibration.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/errors.h"

using namespace tandem;
using amp::ScaleWindow;

namespace {

amp::GradientCollector::Layer layer(const std::string& name, std::initializer_list<float> values,
                                    int copies = 1) {
  amp::GradientCollector::Layer result{.name = name, .activations = {}, .weights = {}};
  for (int i = 0; i < copies; ++i)
    for (const float value : values) result.activations.add(value);
  return result;
}

}  // namespace

TEST_CASE("a window begins where 0.1 % are flushed and ends three bits below overflow", "[calibration]") {
  // Alone, 2^-30 must be held: 2^-24 is the least that is not zero, and 1.5·2^-25 rounds up to it.
  CHECK(amp::window_of(layer("", {0x1p-30f}).activations) == ScaleWindow{6, 42});
  CHECK(amp::window_of(layer("", {0x1.8p-31f}).activations) == ScaleWindow{6, 43});
  CHECK(amp::window_of(layer("", {0x1.8p-3f, 0x1p-10f}).activations) == ScaleWindow{0, 15});
  // One in a thousand may be lost, two may not.
  auto most = layer("", {0x1p-4f}, 1998);
  most.activations.add(0x1p-40f);
  CHECK(amp::window_of(most.activations) == ScaleWindow{0, 16});
  most.activations.add(0x1p-39f);
  CHECK(amp::window_of(most.activations) == ScaleWindow{0, 16});
  most.activations.add(0x1p-38f);
  CHECK(amp::window_of(most.activations) == ScaleWindow{14, 16});
  CHECK(amp::window_of(layer("", {0.0f, 0.0f}).activations) == std::nullopt);
  CHECK(amp::window_of(layer("", {0x1p14f}).activations) == ScaleWindow{0, -2});
}

TEST_CASE("calibration takes what all layers have in common", "[calibration]") {
  const std::vector<amp::GradientCollector::Layer> layers{layer("a", {0x1p-30f}), layer("still", {0.0f}),
                                                          layer("b", {0x1p-8f, 0x1p-14f}),
                                                          layer("c", {0x1p-20f})};
  const amp::Calibration found = amp::calibration_of(layers, 4);
  CHECK(found.window == ScaleWindow{6, 20});
  CHECK(found.lowest == "a");
  CHECK(found.highest == "b");
  CHECK(found.layers.size() == 3);
  CHECK(found.layers[2].window == ScaleWindow{0, 32});
  CHECK(amp::start_of(found, optim::ScalerOptions::dynamic()) == 20);
  optim::ScalerOptions low = optim::ScalerOptions::dynamic(), high = low;
  low.ceiling = 0x1p10;
  high.floor = 0x1p22;
  CHECK(amp::start_of(found, low) == 10);
  CHECK(amp::start_of(found, high) == 22);
  CHECK_THAT(to_string(found), Catch::Contains("4 batches") && Catch::Contains("2^6 (a) to 2^20 (b)"));
}

TEST_CASE("calibration: no scale fits, or nothing was seen", "[calibration]") {
  const std::vector<amp::GradientCollector::Layer> apart{layer("tiny", {0x1p-50f}), layer("huge", {0x1p2f})};
  CHECK_FAILS(UserError, amp::calibration_of(apart, 1),
              "tiny need at least 2^26 in FP16, those of huge at most 2^10");
  const std::vector<amp::GradientCollector::Layer> still{layer("a", {0.0f})};
  CHECK_FAILS(UserError, amp::calibration_of(still, 1), "only zero gradients");
}
