// Images as pixels, in a grid.
#include "data/image_grid.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace tandem;
using namespace tandem::datasets;

namespace {

using Values = std::vector<std::uint8_t>;

Tensor image(const Shape& shape) {
  Values values;
  for (Index i = 0; i < shape.numel(); ++i) values.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return Tensor::from(values, shape);
}

}  // namespace

TEST_CASE("pixels are rounded and cut off", "[grid]") {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const Tensor values =
      Tensor::from({-1.0F, 1.0F, 0.0F, -7.0F, 1.5F, nan, infinity, -infinity, -0.9961F, -0.996F}, {10});
  CHECK(pixels_of(values, -1.0F, 1.0F).to_vector<std::uint8_t>() ==
        Values{0, 255, 128, 0, 255, 0, 255, 0, 0, 1});
  CHECK(pixels_of(Tensor::from({0.0F, 10.0F, 20.0F / 255}, {3}), 0.0F, 10.0F).to_vector<std::uint8_t>() ==
        Values{0, 255, 2});
}

TEST_CASE("images lie in a grid row by row", "[grid]") {
  const Tensor images = Tensor::from(Values{1, 2, 3, 4, 5}, {5, 1, 1, 1});
  const Tensor grid = image_grid(images, {.columns = 0, .gap = 1, .background = 9});
  CHECK(grid.shape() == Shape{3, 5, 1});  // 3 columns, 2 rows
  CHECK(grid.to_vector<std::uint8_t>() == Values{1, 9, 2, 9, 3, 9, 9, 9, 9, 9, 4, 9, 5, 9, 9});
  CHECK(image_grid(images, {.columns = 2, .gap = 0}).shape() == Shape{3, 2, 1});
  CHECK(image_grid(images, {.columns = 7, .gap = 2}).shape() == Shape{1, 13, 1});
  const Tensor colour = image({4, 3, 2, 3});
  const Tensor square = image_grid(colour, {.columns = 2, .gap = 2});
  CHECK(square.shape() == Shape{8, 6, 3});
  const Values all = colour.to_vector<std::uint8_t>(), placed = square.to_vector<std::uint8_t>();
  // The last row of the fourth image.
  CHECK(Values(placed.begin() + (7 * 6 + 4) * 3, placed.end()) == Values(all.end() - 6, all.end()));
  CHECK(placed[2 * 3] == 255);
}
