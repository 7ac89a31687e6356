// Exponent histograms: exact against actual rounding, and collected from a model.
#include "amp/gradient_histogram.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/loss.h"
#include "core/convert.h"
#include "core/random.h"
#include "models/lenet.h"
#include "tests/support/tensors.h"

using namespace tandem;

using amp::ExponentHistogram;

TEST_CASE("predicted FP16 underflow of scaled values equals actual rounding", "[histogram]") {
  std::vector<float> values{0.0f,     -0.0f,      0x1p-149f, 0x1p-126f, 0x1p-25f, 0x1p-24f,
                            65504.0f, 65519.996f, 65520.0f,  1.0f,      3e38f};
  for (std::uint32_t block = 0; block < 5000; ++block)
    for (const std::uint32_t word : philox({.seed = 1}, block)) {
      // Every exponent, and often a mantissa at a border.
      const std::uint32_t mantissa = word % 3 == 0   ? 0
                                     : word % 3 == 1 ? 0x7ff000 - (word >> 30) % 2
                                                     : word & 0x7fffff;
      const float value = std::bit_cast<float>((word & 0x80000000u) | ((word >> 5) % 255) << 23 | mantissa);
      values.push_back(value);
    }
  ExponentHistogram histogram;
  for (const float value : values) histogram.add(value);
  for (int k = 0; k <= 24; ++k) {
    CAPTURE(k);
    std::int64_t flushed = 0, subnormal = 0, overflowed = 0;
    for (const float value : values) {
      const double scaled = std::ldexp(static_cast<double>(value), k);
      const float half = widen(convert<Half>(scaled));
      flushed += value != 0.0f && half == 0.0f;
      subnormal += half != 0.0f && std::abs(scaled) < 0x1p-14;
      overflowed += std::isinf(half);
    }
    CHECK(histogram.flushed(k) == flushed);
    CHECK(histogram.subnormal(k) == subnormal);
    CHECK(histogram.overflowed(k) == overflowed);
  }
  CHECK(histogram.total() == static_cast<std::int64_t>(values.size()));
  CHECK(histogram.lowest() == -149);
  CHECK(histogram.highest() == 127);
}

TEST_CASE("the scale that saves the gradients", "[histogram]") {
  ExponentHistogram histogram;
  for (int i = 0; i < 1000; ++i) histogram.add(0x1p-30f);
  histogram.add(0.0f);
  CHECK(histogram.flushed(0) == 1000);
  CHECK(histogram.saving_scale() == 6);  // 2^-24 is the least that stays
  histogram.add(0x1p13f);
  CHECK(histogram.saving_scale() == 2);  // 2^16 would be infinite
  histogram.add(0x1p20f);
  CHECK_FALSE(histogram.saving_scale().has_value());
  CHECK_FALSE(ExponentHistogram().lowest().has_value());
  // A share that is flushed exactly is not more than the share.
  ExponentHistogram share;
  for (int i = 0; i < 999; ++i) share.add(1.0f);
  share.add(0x1p-30f);
  CHECK(share.saving_scale(0.001) == 0);
  CHECK(share.saving_scale(0.0009) == 6);
  for (const float bad : {INFINITY, -INFINITY, NAN}) share.add(bad);
  CHECK(share.non_finite() == 3);
  CHECK(share.total() == 1003);
  CHECK(share.highest() == 0);
}

TEST_CASE("gradients are gathered by layer, unscaled", "[histogram]") {
  const RandomScope random(5, 0, 0);
  const auto model = models::lenet5({.in_channels = 1, .num_classes = 10});
  const auto gather = [&](double scale) {
    model->clear_gradients();
    amp::GradientCollector collector(*model, scale);
    std::vector<float> pixels;
    for (int i = 0; i < 4 * 28 * 28; ++i) pixels.push_back(std::sin(0.1f * static_cast<float>(i)));
    const Tensor loss = cross_entropy((*model)(Tensor::from(pixels, {4, 28, 28, 1})),
                                      Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4}, {4}));
    backward(loss, scale);
    return collector.layers();
  };
  const auto layers = gather(1.0), scaled = gather(1024.0);
  REQUIRE(layers.size() == scaled.size());
  std::int64_t weights = 0;
  bool loss = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    CAPTURE(layers[i].name);
    loss = loss || layers[i].name == "loss";
    weights += layers[i].weights.total();
    for (int e = ExponentHistogram::kLowest; e <= ExponentHistogram::kHighest; ++e)
      REQUIRE(layers[i].activations.count(e) == scaled[i].activations.count(e));
  }
  CHECK(loss);
  CHECK(weights == model->parameter_count());
}
