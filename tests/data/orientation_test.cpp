// Images stored turned, with an EXIF orientation.
#include "data/orientation.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "data/boxes/box_dataset.h"
#include "data/image_file.h"
#include "data/masked_sets.h"
#include "data/registry.h"
#include "tests/data/files.h"
#include "tests/golden/orientation.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

const Bytes kStored{0, 40, 80, 120, 160, 200};  // 2 rows of 3

void put(Bytes& bytes, std::uint32_t value, int count, bool little) {
  for (int i = 0; i < count; ++i)
    bytes.push_back(static_cast<std::uint8_t>(value >> 8 * (little ? i : count - 1 - i)));
}

// Behind an entry of another tag.
Bytes exif_block(int orientation, bool little, std::uint32_t type = 3) {
  Bytes block = little ? Bytes{'I', 'I', 42, 0} : Bytes{'M', 'M', 0, 42};
  put(block, 8, 4, little);
  put(block, 2, 2, little);
  for (const auto& [tag, value] : {std::pair{0x0100, 3}, {0x0112, orientation}}) {
    put(block, static_cast<std::uint32_t>(tag), 2, little);
    put(block, type, 2, little);
    put(block, 1, 4, little);
    put(block, static_cast<std::uint32_t>(value), type == 3 ? 2 : 4, little);
    if (type == 3) put(block, 0, 2, little);
  }
  put(block, 0, 4, little);
  return block;
}

Bytes with_inserted(Bytes bytes, std::size_t at, const Bytes& more) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
  return bytes;
}

Bytes png_chunk(const std::string& name, const Bytes& data) {
  Bytes chunk;
  put(chunk, static_cast<std::uint32_t>(data.size()), 4, false);
  chunk.insert(chunk.end(), name.begin(), name.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 4; i < chunk.size(); ++i) {
    crc ^= chunk[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  put(chunk, ~crc, 4, false);
  return chunk;
}

constexpr std::size_t kBehindHeader = 33, kEndChunk = 12;

Bytes png_with(const Bytes& png, const Bytes& exif, bool at_end = false) {
  return with_inserted(png, at_end ? png.size() - kEndChunk : kBehindHeader, png_chunk("eXIf", exif));
}

// APP1, behind another one that is no EXIF.
Bytes jpeg_with(const Bytes& jpeg, const Bytes& exif) {
  Bytes markers;
  const auto add = [&](const std::string& name, const Bytes& data) {
    put(markers, 0xffe1, 2, false);
    put(markers, static_cast<std::uint32_t>(2 + name.size() + data.size()), 2, false);
    markers.insert(markers.end(), name.begin(), name.end());
    markers.insert(markers.end(), data.begin(), data.end());
  };
  add("http://ns.adobe.com/xap/1.0/", {0, 'x'});
  add(std::string("Exif\0\0", 6), exif);
  return with_inserted(jpeg, 2, markers);
}

Tensor decode(const Bytes& bytes, int channels = 1, const ImageReading& reading = {}) {
  return decode_image(as_bytes(bytes), "memory", channels, reading);
}
std::vector<int> values(const Tensor& image) { return image.to_vector<int>(); }

const Bytes kPng = png_bytes({.width = 3, .height = 2, .color_type = 0}, kStored);
const Bytes kJpeg = jpeg_bytes({3, 2, 1, 100, false}, kStored);

}  // namespace

TEST_CASE("images lie as Pillow turns them, whatever their orientation", "[image][orientation]") {
  for (const golden::Orientation& expected : golden::kOrientations) {
    INFO(expected.orientation);
    const std::vector<int> pixels(std::begin(expected.pixels), std::end(expected.pixels));
    const Shape extents{expected.rows, expected.columns, 1};
    for (const bool little : {false, true}) {
      for (const std::uint32_t type : {3U, 4U}) {
        const Bytes exif = exif_block(expected.orientation, little, type);
        for (const bool at_end : {false, true}) {
          const Bytes png = png_with(kPng, exif, at_end);
          CHECK(decode(png).shape() == extents);
          CHECK(values(decode(png)) == pixels);
          const std::string name = "mask";
          const Tensor mask = decode_png_indices({as_bytes(png), name, kImageMemory});
          CHECK(mask.shape() == extents.without(2));
          CHECK(values(mask) == pixels);
        }
        const Tensor photograph = decode(jpeg_with(kJpeg, exif));
        REQUIRE(photograph.shape() == extents);
        const std::vector<int> got = values(photograph);
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - pixels[i]) <= 3);
        CHECK(values(decode(jpeg_with(kJpeg, exif), 1, {.upright = false})) == values(decode(kJpeg)));
      }
    }
    CHECK(values(decode(png_with(kPng, exif_block(expected.orientation, true)), 1, {.upright = false})) ==
          values(decode(kPng)));
  }
}

TEST_CASE("every channel of a large image is turned", "[image][orientation]") {
  constexpr std::uint32_t kWidth = 83, kHeight = 47;
  const Bytes rgba = random_bytes(std::size_t{kWidth} * kHeight * 4, 11);
  for (const bool interlaced : {false, true}) {
    const Bytes png =
        png_bytes({.width = kWidth, .height = kHeight, .color_type = 6, .interlaced = interlaced}, rgba);
    for (const int channels : {1, 3, 4}) {
      const Tensor stored = decode(png, channels),
                   turned = decode(png_with(png, exif_block(6, true)), channels);
      REQUIRE(turned.shape() == Shape{kWidth, kHeight, channels});
      const std::vector<int> from = values(stored), to = values(turned);
      bool equal = true;
      for (std::size_t y = 0; y < kWidth; ++y)  // clockwise: the left column becomes the first row
        for (std::size_t x = 0; x < kHeight; ++x)
          for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
            const auto n = static_cast<std::size_t>(channels);
            equal = equal && to[(y * kHeight + x) * n + c] == from[((kHeight - 1 - x) * kWidth + y) * n + c];
          }
      CHECK(equal);
    }
  }
}

TEST_CASE("an image is never refused for its EXIF block", "[image][orientation]") {
  const Bytes whole = exif_block(6, true);
  std::vector<Bytes> blocks{{},
                            {'I', 'I'},
                            Bytes(64, 0xff),
                            exif_block(0, true),
                            exif_block(9, false),
                            exif_block(0x10006, true, 4)};
  for (std::size_t size = 0; size < whole.size() - 8; ++size)  // up to within the second entry
    blocks.emplace_back(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
  for (const std::size_t at : {4U, 7U, 24U}) {  // where the directory is, and the type of a value
    blocks.push_back(whole);
    blocks.back()[at] = 0xff;
  }
  for (const Bytes& block : blocks) {
    INFO(block.size());
    CHECK(exif_orientation(as_bytes(block)) == 1);
    CHECK(decode(png_with(kPng, block)).shape() == Shape{2, 3, 1});
    CHECK(decode(png_with(kPng, block, true)).shape() == Shape{2, 3, 1});
    CHECK(decode(jpeg_with(kJpeg, block)).shape() == Shape{2, 3, 1});
  }
  for (std::uint32_t i = 0; i < 300; ++i) {
    Bytes noise = random_bytes(8 + i % 40, i);
    std::copy_n(whole.begin(), i % 2 == 0 ? 4 : 8, noise.begin());
    const int orientation = exif_orientation(as_bytes(noise));
    CHECK((orientation >= 1 && orientation <= 8));
    CHECK_NOTHROW(decode(jpeg_with(kJpeg, noise)));
  }
}

TEST_CASE("turning an image counts as memory of decoding", "[image][orientation]") {
  const Bytes png =
      png_with(png_bytes({.width = 60, .height = 40, .color_type = 0}, Bytes(2400, 7)), exif_block(8, false));
  const std::size_t enough = png.size() + 2 * 2400;
  CHECK_NOTHROW(decode(png, 1, {.memory = enough}));
  CHECK_THROWS_WITH(decode(png, 1, {.memory = enough - 1}), Contains("data.max_image_mib allows"));
  CHECK_NOTHROW(decode(png, 1, {.memory = enough - 1, .upright = false}));
}

TEST_CASE("every set of images turns them, unless told not to", "[image][orientation]") {
  const TempFolder folder;
  const Bytes turned = png_with(kPng, exif_block(6, true));
  for (const char* name : {"train/a/0.png", "test/a/0.png"}) write_file(folder / "classes" / name, turned);
  for (const char* name : {"images/0.png", "images/1.png"}) write_file(folder / "masks" / name, turned);
  const auto mask_of = [&](const Bytes& mask) {
    for (const char* name : {"masks/0.png", "masks/1.png"}) write_file(folder / "masks" / name, mask);
  };
  for (const bool upright : {true, false}) {
    const Shape extents = upright ? Shape{3, 2, 3} : Shape{2, 3, 3};
    const SetOptions set{.path = folder / "classes", .exif_orientation = upright};
    const Splits classes = open_dataset("image_folder", set);
    CHECK(classes.train->get(0).image.shape() == extents);
    CHECK(classes.train->info().as_stored == !upright);
    mask_of(turned);
    const Sample sample = open_masked_set("masks", {.path = folder / "masks", .exif_orientation = upright},
                                          {{"values", std::vector<Index>{0, 40, 80, 120, 160, 200}}})
                              .train->get(0);
    CHECK(sample.image.shape() == extents);
    CHECK(sample.mask.shape() == extents.without(2));
  }
}

TEST_CASE("boxes are of the pixels whose size the annotations say", "[boxes][orientation]") {
  const TempFolder folder;
  write_file(folder / "0.png", png_with(kPng, exif_block(6, true)));
  const auto shape_of = [&](Index width, Index height, bool upright) {
    BoxCorpus corpus{.where = "list", .classes = {}, .images = {}, .tallies = {}};
    corpus.images.push_back(
        {.file = (folder / "0.png").string(), .name = "0", .width = width, .height = height, .objects = {}});
    const BoxDataset set("set", std::move(corpus), 1, 1, {.upright = upright});
    return set.get(0).image.shape();
  };
  CHECK(shape_of(2, 3, true) == Shape{3, 2, 1});
  CHECK(shape_of(3, 2, true) == Shape{2, 3, 1});
  CHECK(shape_of(3, 2, false) == Shape{2, 3, 1});
  CHECK_THROWS_WITH(shape_of(2, 3, false), Contains("lies on its side: it has 3x2 pixels"));
  CHECK_THROWS_WITH(shape_of(4, 2, true), Contains("its annotations (image 0) are of 4x2"));
}
