// PNG files that are written, read again; images in a grid.
#include "data/image_write.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "data/image_file.h"

namespace tandem::datasets {

namespace {

using Values = std::vector<std::uint8_t>;

Tensor image(const Shape& shape) {
  Values values;
  for (Index i = 0; i < shape.numel(); ++i) values.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return Tensor::from(values, shape);
}

Tensor decoded(const std::string& bytes, int channels) {
  return decode_image(std::as_bytes(std::span(bytes)), "written.png", channels);
}

// Colour type and bits of a PNG file: the tenth and the ninth byte of its first chunk's data.
int colour_type(const std::string& bytes) { return bytes.at(25); }

}  // namespace

TEST_CASE("what is written as PNG is read as it was", "[png]") {
  for (const Shape& shape : {Shape{5, 7, 1}, Shape{5, 7}, Shape{1, 1, 1}, Shape{3, 4, 3}}) {
    CAPTURE(to_string(shape));
    const Tensor given = image(shape);
    const int channels = shape.rank() == 3 ? static_cast<int>(shape[2]) : 1;
    const std::string bytes = encode_png(given);
    CHECK(colour_type(bytes) == (channels == 1 ? 0 : 2));
    const Tensor read = decoded(bytes, channels);
    CHECK(read.shape() == Shape{shape[0], shape[1], channels});
    CHECK(read.to_vector<std::uint8_t>() == given.to_vector<std::uint8_t>());
  }
  CHECK_THROWS_AS(encode_png(image({2, 2, 4})), InternalError);
  CHECK_THROWS_AS(encode_png(Tensor::zeros({2, 2})), InternalError);
}

TEST_CASE("an indexed PNG has its numbers, and shows their colours", "[png]") {
  const Tensor mask = Tensor::from(Values{0, 1, 2, 2, 1, 0}, {2, 3});
  const std::array<std::uint8_t, 3> colours[] = {{0, 0, 0}, {255, 10, 20}, {1, 2, 3}};
  const std::string bytes = encode_indexed_png(mask, colours);
  CHECK(colour_type(bytes) == 3);
  CHECK(decoded(bytes, 3).to_vector<std::uint8_t>() ==
        Values{0, 0, 0, 255, 10, 20, 1, 2, 3, 1, 2, 3, 255, 10, 20, 0, 0, 0});
  CHECK_THROWS_AS(encode_indexed_png(mask, std::span(colours).first(2)), InternalError);
  CHECK_THROWS_AS(encode_indexed_png(image({2, 2, 1}), colours), InternalError);
}

TEST_CASE("pixels are rounded and cut off", "[png]") {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const Tensor values =
      Tensor::from({-1.0F, 1.0F, 0.0F, -7.0F, 1.5F, nan, infinity, -infinity, -0.9961F, -0.996F}, {10});
  CHECK(pixels_of(values, -1.0F, 1.0F).to_vector<std::uint8_t>() ==
        Values{0, 255, 128, 0, 255, 0, 255, 0, 0, 1});
  CHECK(pixels_of(Tensor::from({0.0F, 10.0F, 20.0F / 255}, {3}), 0.0F, 10.0F).to_vector<std::uint8_t>() ==
        Values{0, 255, 2});
}

TEST_CASE("images lie in a grid row by row", "[png]") {
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

}  // namespace tandem::datasets
