// Scenes with masks: pictures on noise, cut-outs on photographs.
#include "samples/scenes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "core/error.h"
#include "data/fashion_mnist.h"
#include "data/masked_sets.h"
#include "files/input.h"
#include "samples/cutouts.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

std::vector<int> values(const Tensor& tensor) { return tensor.to_vector<int>(); }

Splits digits(const SetOptions& common = {}, options::Given own = {}) {
  own.emplace_back("items", "digits");
  return open_masked_set("scenes", common, own);
}

// Two pictures of 4x4 pixels: label 3 is white in its upper half, label 5 everywhere but for a dim corner.
std::shared_ptr<InMemoryDataset> two_pictures() {
  Bytes pixels(32, 200);
  std::fill_n(pixels.begin(), 8, std::uint8_t{255});
  std::fill_n(pixels.begin() + 8, 8, std::uint8_t{0});
  pixels[16] = kSeeThrough;
  return std::make_shared<InMemoryDataset>(
      Tensor::from(pixels, {2, 4, 4}), Tensor::from(std::vector<std::int64_t>{3, 5}, {2}),
      DatasetInfo{.name = "two", .classes = 6, .class_names = {"a", "b", "c", "d", "e", "f"}}, "test");
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a scene shows pictures on noise, its mask where they are", "[scenes]") {
  ScenesOptions options;
  options.image_size = 16;
  options.item_size = 4;
  options.most = 1;
  options.noise = 0.2;
  const Scenes scenes(two_pictures(), options, 60, 7, 0);
  CHECK(scenes.info().classes == 7);
  CHECK(scenes.info().class_names == std::vector<std::string>{"background", "a", "b", "c", "d", "e", "f"});
  std::map<int, int> pixels_of_scenes;  // covered pixels → scenes
  std::set<std::pair<std::size_t, int>> places;
  for (Index i = 0; i < scenes.size(); ++i) {
    const Sample scene = scenes.get(i);
    REQUIRE(scene.image.shape() == Shape{16, 16, 1});
    REQUIRE(scene.mask.shape() == Shape{16, 16});
    const auto image = values(scene.image), mask = values(scene.mask);
    int covered = 0;
    for (std::size_t p = 0; p < mask.size(); ++p) {
      REQUIRE((mask[p] == 0 || mask[p] == 4 || mask[p] == 6));
      REQUIRE((mask[p] == 0 ? image[p] < 51 : image[p] == (mask[p] == 4 ? 255 : 200)));
      covered += mask[p] != 0 ? 1 : 0;
    }
    ++pixels_of_scenes[covered];
    const auto first = std::ranges::find_if(mask, [](int c) { return c != 0; });
    if (first != mask.end()) places.emplace(static_cast<std::size_t>(first - mask.begin()), *first);
  }
  // Nothing, the half of the one, all of the other but what is see-through.
  REQUIRE(pixels_of_scenes.size() == 3);
  CHECK(pixels_of_scenes.contains(8));
  CHECK(pixels_of_scenes.contains(15));
  CHECK(std::abs(pixels_of_scenes[0] - 30) < 15);
  CHECK(places.size() > 20);
}

TEST_CASE("pictures lie before each other, and are as large as asked for", "[scenes]") {
  ScenesOptions options;
  options.image_size = 8;
  options.item_size = 8;
  options.most = 3;
  const Scenes scenes(two_pictures(), options, 200, 1, 0);
  bool both = false;
  for (Index i = 0; i < scenes.size(); ++i) {
    const auto mask = values(scenes.get(i).mask);
    // The half is blended with the row below it when it is enlarged.
    const auto upper = std::count(mask.begin(), mask.begin() + 40, 4);
    if (upper == 40 && std::count(mask.begin() + 40, mask.end(), 6) == 24) both = true;
  }
  CHECK(both);
}

TEST_CASE("scenes are a function of seed, split and number", "[scenes]") {
  const auto pixels = [](const Splits& splits, Index index, bool test = false) {
    return values((test ? splits.test : splits.train)->get(index).image);
  };
  const Splits one = digits({.train_size = 40, .test_size = 30}), two = digits({.train_size = 90});
  CHECK(one.train->size() == 40);
  CHECK(one.test->size() == 30);
  CHECK(one.validation == nullptr);
  CHECK(one.train->info().sample_shape == Shape{64, 64, 1});
  CHECK(one.train->info().classes == 11);
  CHECK(pixels(one, 5) == pixels(two, 5));
  CHECK(pixels(one, 5) != pixels(one, 6));
  CHECK(pixels(one, 5) != pixels(one, 5, true));
  CHECK(pixels(digits({.split_seed = 3}), 5) != pixels(one, 5));
  const ChannelStatistics& statistics = one.train->info().statistics;
  CHECK(statistics.mean[0] > 0.1F);
  CHECK(statistics.stddev[0] > 0.1F);
  CHECK(one.test->info().statistics.mean == statistics.mean);

  const Splits held = digits({.train_size = 40, .validation_size = 10});
  CHECK(held.train->size() == 40);
  CHECK(held.validation->size() == 10);
}

TEST_CASE("scenes say what cannot be shown", "[scenes]") {
  CHECK(error_of([] {
          digits({}, {{"image_size", 20}});
        }) == "[data.item_size] pictures of 28 pixels do not fit into scenes of 20 (data.image_size)");
  CHECK(error_of([] { digits({}, {{"most", 0}}); }) == "[scenes] most: expected integer in [1, 1000], got 0");
  CHECK(error_of([] { open_masked_set("scene"); }).find("did you mean \"scenes\"") != std::string::npos);
  const TempFolder empty;
  CHECK(error_of([&] {
          open_masked_set("scenes", {.path = empty.path().string()});
        }).find("apt install dataset-fashion-mnist") != std::string::npos);
}

TEST_CASE("scenes of Fashion-MNIST show test items in test scenes only", "[scenes]") {
  if (files::kind_of(kFashionMnistFolder) != files::Kind::folder) return;
  const FashionMnist sets = read_fashion_mnist();
  const Splits splits = open_masked_set("scenes", {.train_size = 300, .test_size = 300});
  const auto shown = [](const DatasetPtr& scenes) {
    std::set<int> classes;
    for (Index i = 0; i < scenes->size(); ++i) {
      for (const int c : values(scenes->get(i).mask)) classes.insert(c);
    }
    return classes;
  };
  CHECK(shown(splits.train).size() == 11);
  CHECK(shown(splits.test).size() == 11);
  // A picture that lies free in a test scene is found among the test items, and not among the others.
  ScenesOptions options;
  options.most = 1;
  options.image_size = 28;
  const auto found_in = [](const Scenes& scenes, const InMemoryDataset& items) {
    std::set<std::vector<int>> pictures;
    for (Index i = 0; i < items.size(); ++i) {
      auto picture = values(items.get(i).image);
      for (int& pixel : picture) pixel = pixel <= kSeeThrough ? 0 : pixel;
      pictures.insert(picture);
    }
    int found = 0;
    for (Index i = 0; i < scenes.size(); ++i) {
      const Sample scene = scenes.get(i);
      auto picture = values(scene.image);
      const auto mask = values(scene.mask);
      for (std::size_t p = 0; p < mask.size(); ++p) picture[p] = mask[p] == 0 ? 0 : picture[p];
      found += std::ranges::count(mask, 0) < 784 && pictures.contains(picture) ? 1 : 0;
    }
    return found;
  };
  const Scenes testing(sets.test, options, 20, 0, 1);
  CHECK(found_in(testing, *sets.test) > 5);
  CHECK(found_in(testing, *sets.train) == 0);
}

TEST_CASE("cut-outs are pasted on photographs, their mask where they hide what is behind", "[cutouts]") {
  // Red cut-outs, all of them solid in a disc, on blue.
  const auto disc = [](std::uint8_t red) {
    Bytes pixels;
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < 20; ++x) {
        const bool inside = (x - 10) * (x - 10) + (y - 10) * (y - 10) < 81;
        pixels.insert(pixels.end(),
                      {inside ? red : std::uint8_t{0}, 0, 0, inside ? std::uint8_t{255} : std::uint8_t{0}});
      }
    }
    return Tensor::from(pixels, {20, 20, 4});
  };
  Bytes blue;
  for (int i = 0; i < 2400; ++i) blue.insert(blue.end(), {0, 0, 200});
  CutoutOptions options;
  options.from.categories = {"dark", "bright"};
  options.most = 1;
  options.image_size = 32;
  const CutoutScenes scenes(
      {.photographs = {Tensor::from(blue, {40, 60, 3})}, .cutouts = {{disc(100)}, {disc(255)}}}, options, 40,
      3, 0);
  CHECK(scenes.info().class_names == std::vector<std::string>{"background", "dark", "bright"});
  std::map<int, int> pixels;
  for (Index i = 0; i < scenes.size(); ++i) {
    const Sample scene = scenes.get(i);
    REQUIRE(scene.image.shape() == Shape{32, 32, 3});
    const auto image = values(scene.image), mask = values(scene.mask);
    for (std::size_t p = 0; p < mask.size(); ++p) {
      ++pixels[mask[p]];
      // More than half of the blue is hidden where, and only where, the cut-out is.
      REQUIRE((image[3 * p + 2] < 100) == (mask[p] != 0));
      if (mask[p] == 1) REQUIRE(image[3 * p] <= 101);
      if (mask[p] == 2) REQUIRE(image[3 * p] >= 127);
    }
    CHECK(values(scenes.get(i).mask) == mask);
  }
  CHECK(pixels[1] > 1000);
  CHECK(pixels[2] > 1000);
}

TEST_CASE("a set of cut-outs keeps some of everything for testing, and names its package", "[cutouts]") {
  const TempFolder folder;
  const auto rgba = [](int i, bool cut) {
    Bytes bytes;
    for (int p = 0; p < 64; ++p)
      bytes.insert(bytes.end(), {static_cast<std::uint8_t>(20 * i), 0, 0,
                                 cut && p < 32 ? std::uint8_t{0} : std::uint8_t{255}});
    return png_bytes({.width = 8, .height = 8, .color_type = 6}, bytes);
  };
  for (int i = 0; i < 10; ++i) {
    write_file(folder / ("cutouts/cats/" + std::to_string(i) + ".png"), rgba(i, true));
    write_file(folder / ("photographs/" + std::to_string(i) + ".jpg"),
               jpeg_bytes({.width = 40, .height = 30}, Bytes(3600, static_cast<std::uint8_t>(10 * i))));
  }
  write_file(folder / "cutouts/cats/0_mirror.png", rgba(0, true));
  write_file(folder / "cutouts/cats/opaque.png", rgba(0, false));
  const SetOptions common{.path = (folder / "cutouts").string(), .train_size = 50, .test_size = 20};
  const options::Given own{{"photographs", (folder / "photographs").string()},
                           {"categories", std::vector<std::string>{"cats"}},
                           {"image_size", 16}};
  const Splits splits = open_masked_set("cutouts", common, own);
  CHECK(splits.train->size() == 50);
  CHECK(splits.test->size() == 20);
  // The greys of the photographs of a split.
  const auto greys = [](const DatasetPtr& set) {
    std::set<int> found;
    for (Index i = 0; i < set->size(); ++i) {
      const Sample scene = set->get(i);
      const auto image = values(scene.image), mask = values(scene.mask);
      const auto clear = std::ranges::find(mask, 0) - mask.begin();
      found.insert((image[static_cast<std::size_t>(3 * clear + 1)] + 5) / 10);
    }
    return found;
  };
  const auto train = greys(splits.train), test = greys(splits.test);
  CHECK(train.size() == 8);
  CHECK(test.size() == 2);
  for (const int grey : test) CHECK_FALSE(train.contains(grey));

  const auto error = [&](const SetOptions& set, const options::Given& given) {
    return error_of([&] { open_masked_set("cutouts", set, given); });
  };
  CHECK(error({.path = (folder / "nothing").string()}, own).find("apt install tuxpaint-stamps-default") !=
        std::string::npos);
  CHECK(error(common, {{"categories", std::vector<std::string>{"cats"}},
                       {"photographs", (folder / "nothing").string()}})
            .find("apt install mate-backgrounds`), or set data.photographs to another folder") !=
        std::string::npos);
  CHECK(error(common, {{"scale", std::vector<double>{0.9, 0.2}}}).find("scale") != std::string::npos);
}
