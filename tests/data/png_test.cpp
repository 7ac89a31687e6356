// PNG files: stored indices and alpha, and encoding.
#include <catch2/catch.hpp>

#include "core/error.h"
#include "data/image_file.h"
#include "data/png_write.h"
#include "files/write.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

Tensor indices_of(const Bytes& bytes) {
  const std::string name = "memory";
  return decode_png_indices({as_bytes(bytes), name, kImageMemory});
}
std::vector<int> values(const Tensor& image) { return image.to_vector<int>(); }

Tensor pixels(const Bytes& bytes, const Shape& shape) { return Tensor::from(bytes, shape); }

Tensor decoded(const std::string& png, int channels) {
  return decode_image(std::as_bytes(std::span(png)), "memory", channels);
}

}  // namespace

TEST_CASE("indices are read as they are stored", "[png]") {
  const Tensor palette =
      indices_of(png_bytes({.width = 3, .height = 2, .color_type = 3}, {2, 1, 0, 3, 3, 1}));
  CHECK(palette.shape() == Shape{2, 3});
  CHECK(values(palette) == std::vector<int>{2, 1, 0, 3, 3, 1});
  CHECK(values(indices_of(png_bytes({.width = 3, .color_type = 0}, {0, 255, 7}))) ==
        std::vector<int>{0, 255, 7});
  // Fewer than 8 bits keep their value, where an image's would be spread over 0 to 255.
  CHECK(values(indices_of(png_bytes({.width = 5, .color_type = 0, .bit_depth = 2},
                                    {0b00011011, 0b11000000}))) == std::vector<int>{0, 1, 2, 3, 3});
  CHECK(values(indices_of(png_bytes({.width = 3, .color_type = 3, .bit_depth = 4}, {0x12, 0x30}))) ==
        std::vector<int>{1, 2, 3});
  const Bytes random = random_bytes(13 * 7, 5);
  const Tensor interlaced =
      indices_of(png_bytes({.width = 13, .height = 7, .color_type = 0, .interlaced = true}, random));
  CHECK(values(interlaced) == std::vector<int>(random.begin(), random.end()));
}

TEST_CASE("PNGs without indices are refused by name", "[png]") {
  CHECK_THROWS_WITH(indices_of(png_bytes({.color_type = 2}, {1, 2, 3})),
                    Contains("[memory] is a PNG of colours;") && Contains("palette indices or grey values"));
  CHECK_THROWS_WITH(indices_of(png_bytes({.color_type = 6}, {1, 2, 3, 4})),
                    Contains("colours with transparency"));
  CHECK_THROWS_WITH(indices_of(png_bytes({.color_type = 4}, {1, 2})), Contains("with transparency"));
  CHECK_THROWS_WITH(indices_of(png_bytes({.color_type = 0, .bit_depth = 16}, {1, 2})),
                    Contains("16 bits a pixel"));
  const TempFolder folder;
  write_file(folder / "mask.png", jpeg_bytes({.channels = 1}, Bytes(64, 1)));
  CHECK_THROWS_WITH(read_indices(folder / "mask.png"), Contains("mask.png] is no PNG file"));
  Bytes cut = png_bytes({.width = 40, .height = 40, .color_type = 0}, random_bytes(1600, 1));
  cut.resize(cut.size() / 2);
  CHECK_THROWS_WITH(indices_of(cut), Contains("cannot be decoded as PNG: truncated"));
}

TEST_CASE("opacity is read where it is asked for", "[png]") {
  const auto rgba = [](const Bytes& bytes) { return values(decode_image(as_bytes(bytes), "memory", 4)); };
  CHECK(rgba(png_bytes({.width = 2, .color_type = 6}, {10, 20, 30, 0, 1, 2, 3, 128})) ==
        std::vector<int>{10, 20, 30, 0, 1, 2, 3, 128});
  CHECK(rgba(png_bytes({.color_type = 2}, {10, 20, 30})) == std::vector<int>{10, 20, 30, 255});
  CHECK(rgba(png_bytes({.color_type = 4}, {10, 20})) == std::vector<int>{10, 10, 10, 20});
  CHECK(rgba(png_bytes({.color_type = 3}, {1})) == std::vector<int>{0, 255, 0, 255});
  CHECK(rgba(png_bytes({.color_type = 6, .interlaced = true}, {10, 20, 30, 40})) ==
        std::vector<int>{10, 20, 30, 40});
  CHECK_THROWS_WITH(rgba(jpeg_bytes({}, Bytes(192, 1))), Contains("JPEG") && Contains("expected a PNG"));
}

TEST_CASE("images that are written are read back", "[png]") {
  const Bytes bytes = random_bytes(5 * 7 * 3, 2);
  const Tensor colours = pixels(bytes, {5, 7, 3});
  CHECK(values(decoded(png_of(colours), 3)) == values(colours));
  const Tensor grey = pixels(random_bytes(35, 3), {5, 7, 1});
  CHECK(values(decoded(png_of(grey), 1)) == values(grey));
  CHECK(png_of(grey.viewed({5, 7})) == png_of(grey));
  CHECK_THROWS_AS(png_of(pixels(random_bytes(35, 3), {5, 7, 1, 1})), InternalError);
  CHECK_THROWS_AS(png_of(Tensor::zeros({5, 7, 3})), InternalError);
}

TEST_CASE("masks are written with a palette and read back as indices", "[png]") {
  const Colour palette[] = {{0, 0, 0}, {255, 0, 0}, {1, 2, 3}};
  const Tensor mask = pixels({0, 1, 2, 2, 1, 0}, {2, 3});
  const TempFolder folder;
  files::write_atomically((folder / "mask.png").string(), indexed_png_of(mask, palette));
  CHECK(values(read_indices(folder / "mask.png")) == values(mask));
  CHECK(read_indices(folder / "mask.png").shape() == Shape{2, 3});
  CHECK(values(read_image(folder / "mask.png")) ==
        std::vector<int>{0, 0, 0, 255, 0, 0, 1, 2, 3, 1, 2, 3, 255, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(indexed_png_of(mask, std::span(palette).first(2)), InternalError);
}
