// Position layers.
#include "nn/layers/positions.h"

#include <catch2/catch.hpp>

#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("a longer table of sinusoidal positions is on the layer's device, with the same rows") {
  constexpr Index kFeatures = 6, kCount = 600;
  nn::SinusoidalPositions positions(kFeatures);
  positions.to(test_device());
  const Tensor x = Tensor::zeros({1, 4, kFeatures}, {.device = test_device()});
  const auto before = positions(x, 2).to_vector<float>();
  CHECK(positions.table(kCount).device() == test_device());
  CHECK(positions.table(kCount).size(0) == kCount);
  CHECK(positions(x, 2).to_vector<float>() == before);
}
