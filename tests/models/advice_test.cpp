// Shape advice, arithmetic intensity and Amdahl's bound.
#include "models/advice.h"

#include <catch2/catch.hpp>
#include <limits>

#include "models/mlp.h"
#include "models/resnet.h"

using namespace tandem;

using Catch::Contains;

TEST_CASE("layers that leave matrix units idle are named, greatest share of the work first", "[advice]") {
  const auto model = models::resnet(20, {.in_channels = 1, .num_classes = 10});
  const auto summary = models::summarise(*model, {28, 28, 1});
  const auto advice = models::shape_advice(summary);
  double last = 1.0;
  bool first = false, last_layer = false;
  for (const auto& entry : advice) {
    CHECK(entry.flop_share <= last);
    last = entry.flop_share;
    if (entry.layer == "conv1") {
      first = true;
      CHECK(entry.tensor_cores == 0.125);
      CHECK(entry.amx == 1.0 / 32.0);
    }
    if (entry.layer == "fc") {
      last_layer = true;
      CHECK(entry.tensor_cores == 10.0 / 16.0);
    }
    CHECK_FALSE((entry.inputs % 32 == 0 && entry.outputs % 16 == 0));
  }
  CHECK(first);
  CHECK(last_layer);
  // 16 channels fill tensor cores and half of an AMX tile.
  const auto layer1 = std::ranges::find_if(advice, [](const auto& a) { return a.layer == "layer1.0.conv1"; });
  REQUIRE(layer1 != advice.end());
  CHECK(layer1->tensor_cores == 1.0);
  CHECK(layer1->amx == 0.5);
  CHECK_THAT(models::to_string(*layer1), Contains("16 → 16") && Contains("32 → 16 would fill AMX tiles"));
  // Convolutions and the last layer, once for each of their 22 calls.
  std::size_t products = 0;
  for (const models::OpTime& time : summary.times) products += time.flop > 0 ? 1 : 0;
  CHECK(products == 22);
  CHECK(models::product_share(summary) > 0.2);
  CHECK(models::product_share(summary) < 0.99);
}

TEST_CASE("an AMX tile takes 32 inputs and 16 outputs, a tensor core 8 of each", "[advice]") {
  const auto share = [](Index inputs, Index outputs) {
    models::ModelSummary summary;
    summary.layers.push_back({.name = "fc", .output = {}, .inputs = inputs, .outputs = outputs});
    const auto advice = models::shape_advice(summary);
    return advice.empty() ? std::pair(1.0, 1.0) : std::pair(advice[0].tensor_cores, advice[0].amx);
  };
  CHECK(share(32, 16) == std::pair(1.0, 1.0));
  CHECK(share(16, 32) == std::pair(1.0, 0.5));
  CHECK(share(40, 24) == std::pair(1.0, 0.625 * 0.75));
  CHECK(share(12, 10) == std::pair(0.75 * 0.625, 0.375 * 0.625));
}

TEST_CASE("arithmetic intensity counts activations a sample and weights a batch", "[advice]") {
  models::ModelSummary summary;
  summary.flop = 1000;
  summary.traffic_bytes = 90;
  summary.parameter_bytes = 100;
  CHECK(models::arithmetic_intensity(summary, 10) == 10.0);
  CHECK(models::arithmetic_intensity(summary, 1) == Approx(1000.0 / 190.0));
}

TEST_CASE("the share of products counts those that run in 16 bits", "[advice]") {
  const OpInfo conv{"conv2d", CastRule::lower}, relu{"relu", CastRule::neutral};
  models::ModelSummary summary;
  summary.times = {{"a", &conv, 3.0, 100}, {"b", &conv, 1.0, 50}, {"b", &relu, 4.0, 0}};
  CHECK(models::product_share(summary) == 0.5);
  CHECK(models::product_share(summary, [](const models::OpTime& t) { return t.layer == "b"; }) == 0.125);
  CHECK(models::product_share({}) == 0.0);
}

TEST_CASE("Amdahl's bound", "[advice]") {
  CHECK(models::amdahl_bound(0.5, 2.0) == Approx(4.0 / 3.0));
  CHECK(models::amdahl_bound(0.75, std::numeric_limits<double>::infinity()) == Approx(4.0));
  CHECK(models::amdahl_bound(0.0, 16.0) == 1.0);
}
