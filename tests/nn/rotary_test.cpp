// Rotary positions and root mean square norms, by values that were computed elsewhere in FP64.
#include "nn/layers/rotary.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "nn/layers/norm.h"
#include "tests/support/tensors.h"

using namespace tandem;
using Catch::Contains;

TEST_CASE("rotary positions have the values of both layouts", "[rotary]") {
  struct Row {
    Index position;
    bool interleaved;
    std::vector<double> expected;
  };
  const std::vector<Row> rows{{1, false, {-1.984111, 1.959901, 2.462378, 4.019800}},
                              {2, false, {-3.144039, 1.919605, -0.339143, 4.039197}},
                              {1000, false, {-1.918260, 0.497941, 2.514017, -4.444328}},
                              {1, true, {-1.142640, 1.922076, 2.959851, 4.029800}},
                              {2, true, {-2.234742, 0.077004, 2.919405, 4.059196}},
                              {1000, true, {-1.091380, 1.951638, -0.341130, -4.988349}}};
  for (const Row& row : rows) {
    CAPTURE(row.position, row.interleaved);
    const nn::RotaryAngles all = nn::rotary_angles(row.position + 1, 4, 1e4, row.interleaved);
    const nn::RotaryAngles at{all.cosines.rows(row.position, 1).to(test::test_device()),
                              all.sines.rows(row.position, 1).to(test::test_device()), row.interleaved};
    // Two heads alike.
    const Tensor x = test::tensor_of({1, 2, 3, 4, 1, 2, 3, 4}, {1, 1, 8}, DType::f32);
    const std::vector<double> y = nn::rotated(x, 2, at).to_vector<double>();
    for (std::size_t i = 0; i < 8; ++i) CHECK(y[i] == Approx(row.expected[i % 4]).margin(2e-6));
  }
  CHECK_THROWS_WITH(nn::rotary_angles(4, 3, 1e4), Contains("a head has 3 columns"));
}

TEST_CASE("root mean square norm divides by the root of the mean square", "[norm]") {
  nn::RmsNorm norm(4, 0.0);
  norm.to(test::test_device());
  const std::vector<double> y = norm(test::tensor_of({1, 2, 3, 6}, {1, 4}, DType::f32)).to_vector<double>();
  const std::vector<double> expected{0.282843, 0.565685, 0.848528, 1.697056};
  for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] == Approx(expected[i]).margin(1e-6));
}
