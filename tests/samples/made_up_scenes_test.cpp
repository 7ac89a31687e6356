// Scenes with boxes that are composed as they are asked for.
#include <set>

#include "data/digits.h"
#include "samples/item_scenes.h"
#include "samples/stamp_scenes.h"
#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;
using datasets::BoxImage;
using datasets::BoxObject;
using datasets::testing::Bytes;
using datasets::testing::write_file;

namespace {

Tensor filled(const Shape& shape, const Bytes& pixel) {
  Bytes bytes;
  for (Index i = 0; i < shape.numel(); i += static_cast<Index>(pixel.size()))
    bytes.insert(bytes.end(), pixel.begin(), pixel.end());
  return Tensor::from(bytes, shape);
}

bool inside(const BoxObject& object, Index x, Index y) {
  const auto at = [](Index pixel) { return static_cast<double>(pixel) + 0.5; };
  return at(x) > object.box.x1 && at(x) < object.box.x2 && at(y) > object.box.y1 && at(y) < object.box.y2;
}

double shared(const BoxObject& a, const BoxObject& b) {
  const double width = std::min(a.box.x2, b.box.x2) - std::max(a.box.x1, b.box.x1);
  const double height = std::min(a.box.y2, b.box.y2) - std::max(a.box.y1, b.box.y1);
  if (width <= 0 || height <= 0) return 0;
  return width * height / (a.box.area() + b.box.area() - width * height);
}

}  // namespace

TEST_CASE("boxes of stamps are where the cut-outs are", "[boxes]") {
  const datasets::CutoutMaterial material{
      .photographs = {filled({40, 60, 3}, {0, 0, 200})},
      .cutouts = {{filled({20, 10, 4}, {250, 0, 0, 255})}, {filled({12, 30, 4}, {0, 250, 0, 255})}}};
  const datasets::StampScenes scenes(material, {.scene_size = 64, .most_items = 4, .scale = {0.2, 0.6}}, 3,
                                     0);
  std::set<std::size_t> counts;
  std::set<Index> labels;
  for (std::int64_t id = 1; id <= 60; ++id) {
    INFO("scene " << id);
    const BoxImage described = scenes.described(id, 100);
    const Tensor image = scenes.image(id);
    REQUIRE(image.shape() == Shape{64, 64, 3});
    const auto pixels = image.to_vector<std::uint8_t>();
    counts.insert(described.objects.size());
    for (Index y = 0; y < 64; ++y) {
      for (Index x = 0; x < 64; ++x) {
        // The last one laid down is on top.
        Index label = 0;
        for (const BoxObject& object : described.objects)
          if (inside(object, x, y)) label = object.label;
        const std::uint8_t* const pixel = pixels.data() + (y * 64 + x) * 3;
        REQUIRE((pixel[0] > 200) == (label == 1));
        REQUIRE((pixel[1] > 200) == (label == 2));
        REQUIRE((pixel[2] > 100) == (label == 0));
      }
    }
    for (std::size_t i = 0; i < described.objects.size(); ++i) {
      const BoxObject& object = described.objects[i];
      labels.insert(object.label);
      CHECK(object.id == 100 + static_cast<std::int64_t>(i));
      CHECK(object.area == object.box.area());
      const double longer = std::max(object.box.width(), object.box.height());
      CHECK(longer >= 0.2 * 64 - 1);
      CHECK(longer <= 0.6 * 64 + 1);
      for (std::size_t j = 0; j < i; ++j) CHECK(shared(object, described.objects[j]) <= 0.15);
    }
    CHECK(scenes.described(id, 100) == described);
  }
  CHECK(counts == std::set<std::size_t>{1, 2, 3, 4});
  CHECK(labels == std::set<Index>{1, 2});
  CHECK_FALSE(scenes.described(1, 1) ==
              datasets::StampScenes(material, {.scene_size = 64}, 4, 0).described(1, 1));
}

TEST_CASE("cut-outs for boxes end where they are solid", "[boxes]") {
  const TempFolder folder;
  // 16 x 12 pixels, of which columns 3 to 7 and rows 2 to 10 hide what is behind.
  Bytes pixels;
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 16; ++x)
      pixels.insert(pixels.end(),
                    {200, 0, 0, static_cast<std::uint8_t>(x >= 3 && x < 8 && y >= 2 && y < 11 ? 255 : 90)});
  for (const char* const name : {"a", "b"}) {
    write_file(folder / fmt::format("cutouts/red/{}.png", name),
               datasets::testing::png_bytes({.width = 16, .height = 12, .color_type = 6}, pixels));
    write_file(folder / fmt::format("photographs/{}.jpg", name),
               datasets::testing::jpeg_bytes({.width = 40, .height = 30}, Bytes(3600, 50)));
  }
  const datasets::CutoutSources from{.photographs = (folder / "photographs").string(), .categories = {"red"}};
  const datasets::SetOptions common{.path = (folder / "cutouts").string()};
  const auto trimmed = datasets::read_cutouts(from, common, 64, true),
             whole = datasets::read_cutouts(from, common, 64, false);
  CHECK(trimmed.train.cutouts.at(0).at(0).shape() == Shape{9, 5, 4});
  CHECK(whole.train.cutouts.at(0).at(0).shape() == Shape{12, 16, 4});
  const auto splits = datasets::open_box_set(
      "stamps", {.path = (folder / "cutouts").string(), .train_size = 7, .test_size = 3},
      {{"photographs", (folder / "photographs").string()},
       {"categories", std::vector<std::string>{"red"}},
       {"scene_size", 48}});
  CHECK(splits.train.images.size() == 7);
  CHECK(splits.test.images.size() == 3);
  CHECK(splits.test.images[0].id > 100'000'000);
  CHECK(splits.train.maker->channels() == 3);
}

// Whoever compares figures of two versions has the same scenes.
TEST_CASE("scenes of items stay the same from version to version", "[boxes]") {
  const auto digits = datasets::open_digits({}, {});
  const datasets::ItemScenes scenes(digits.train, {.items = "digits", .scene_size = 96, .most_items = 4}, 1,
                                    0);
  std::string text;
  for (std::int64_t id = 1; id <= 3; ++id)
    for (const BoxObject& object : scenes.described(id, 1).objects)
      text += fmt::format("{}:{} {:.0f},{:.0f},{:.0f},{:.0f}\n", id, object.label, object.box.x1,
                          object.box.y1, object.box.x2, object.box.y2);
  CHECK(text ==
        "1:9 43,25,49,33\n2:2 81,38,91,51\n2:9 34,0,45,15\n"
        "3:5 31,73,36,79\n3:2 88,56,95,66\n3:2 78,63,89,77\n");
}
