// Sets of images with masks: folders of the user's own.
#include "data/masked_sets.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "data/png_write.h"
#include "data/preparation.h"
#include "data/sample_source.h"
#include "files/input.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

std::vector<int> values(const Tensor& tensor) { return tensor.to_vector<int>(); }

void write(const fs::path& path, const std::string& bytes) { write_file(path, {bytes.begin(), bytes.end()}); }

// An image of `width` x `height` and its mask, all of whose pixels are `value`, the first one `first`.
void write_pair(const fs::path& folder, const std::string& name, int value, int first, Index height = 6,
                Index width = 8) {
  Bytes mask(static_cast<std::size_t>(height * width), static_cast<std::uint8_t>(value));
  mask[0] = static_cast<std::uint8_t>(first);
  write(folder / "images" / (name + ".png"),
        png_of(Tensor::from(Bytes(static_cast<std::size_t>(height * width * 3), 90), {height, width, 3})));
  write(folder / "masks" / (name + ".png"), png_of(Tensor::from(mask, {height, width})));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

Splits masks(const TempFolder& folder, const options::Given& own = {}) {
  return open_masked_set("masks", {.path = folder.path().string()}, own);
}

}  // namespace

TEST_CASE("folders of images and masks are a data set", "[mask_folder]") {
  const TempFolder folder;
  write_pair(folder / "train", "a", 1, 255);
  write_pair(folder / "train", "deep/b", 2, 0);
  write_pair(folder / "test", "c", 0, 1);
  const Splits splits = masks(folder);
  REQUIRE(splits.train->size() == 2);
  REQUIRE(splits.test->size() == 1);
  CHECK(splits.train->info().classes == 3);
  CHECK(splits.train->info().sample_shape == Shape{6, 8, 3});
  CHECK(splits.train->info().masks);
  const auto mask = values(splits.train->get(0).mask);
  CHECK(mask[0] == kIgnored);
  CHECK(std::count(mask.begin(), mask.end(), 1) == 47);
  CHECK(values(splits.train->get(1).mask)[1] == 2);
  CHECK(splits.train->get(0).image.shape() == Shape{6, 8, 3});
  CHECK(splits.train->get(0).mask.shape() == Shape{6, 8});

  const Splits grey =
      masks(folder, {{"channels", 1}, {"class_names", std::vector<std::string>{"x", "y", "z"}}});
  CHECK(grey.train->info().class_names == std::vector<std::string>{"x", "y", "z"});
  CHECK(grey.train->get(0).image.shape() == Shape{6, 8, 1});

  // Without a split of the files' own, a share is kept.
  const TempFolder flat;
  for (int i = 0; i < 10; ++i) write_pair(flat.path(), std::to_string(i), i % 2, 0);
  const Splits divided = masks(flat, {{"test_fraction", 0.3}});
  CHECK(divided.train->size() == 7);
  CHECK(divided.test->size() == 3);

  write_pair(folder / "val", "d", 2, 0);
  CHECK(masks(folder).validation->size() == 1);
}

TEST_CASE("values of a mask stand for classes as they are told to", "[mask_folder]") {
  const TempFolder folder;
  write_pair(folder / "train", "a", 255, 0);
  write_pair(folder / "test", "b", 0, 255);
  CHECK(error_of([&] { masks(folder); })
            .find("holds only the values 0 and 255, and 255 is ignored (data.ignore_index); if they are "
                  "the two classes, set data.values [0, 255]") != std::string::npos);
  // Nor does a number of classes make white one of them.
  CHECK(error_of([&] {
          masks(folder, {{"classes", 2}});
        }).find("set data.values [0, 255]") != std::string::npos);
  const Splits two = masks(folder, {{"values", std::vector<Index>{0, 255}}});
  CHECK(two.train->info().classes == 2);
  CHECK(values(two.train->get(0).mask)[0] == 0);
  CHECK(values(two.train->get(0).mask)[1] == 1);
  const Splits other = masks(folder, {{"values", std::vector<Index>{255}}, {"ignore_index", 0}});
  CHECK(values(other.train->get(0).mask)[0] == kIgnored);
  CHECK(values(other.train->get(0).mask)[1] == 0);
  CHECK(error_of([&] {
          masks(folder, {{"values", std::vector<Index>{255, 255}}});
        }) == "[data.values] 255 stands for two classes, 0 and 1");
  CHECK(error_of([&] {
          masks(folder, {{"values", std::vector<Index>{0, 7}}, {"ignore_index", 7}});
        }) == "[data.ignore_index] 7 stands for class 1, too");
  CHECK(error_of([&] {
          masks(folder, {{"values", std::vector<Index>{0, 7}}, {"classes", 3}});
        }) == "[data.values] has 2 values for 3 classes");
  CHECK(error_of([&] {
          masks(folder, {{"ignore_index", 256}});
        }).find("holds the values 0, 255, too few to be the classes 0 to 255") != std::string::npos);
}

TEST_CASE("masks that cannot be used are refused by name", "[mask_folder]") {
  const TempFolder folder;
  write_pair(folder / "train", "a", 1, 0);
  write_pair(folder / "train", "b", 1, 0);
  write_pair(folder / "test", "c", 5, 0);
  const auto get = [&](const options::Given& own, bool test, Index index) {
    return error_of([&] {
      const Splits splits = masks(folder, own);
      (test ? splits.test : splits.train)->get(index);
    });
  };
  constexpr const char* kSkip = "; data.skip_bad_samples=true takes the next sample";
  const std::string train = (folder / "train").string(), test = (folder / "test").string();
  CHECK(get({}, true, 0) ==
        fmt::format("[{}/masks/c.png] holds 5 in row 0, column 1, which is none of the 2 classes{}", test,
                    kSkip));
  CHECK(get({{"classes", 6}}, true, 0) == "no error");

  write(folder / "train/masks/b.png", png_of(Tensor::from(Bytes(42, 1), {6, 7})));
  CHECK(get({}, false, 1) == fmt::format("[{}/masks/b.png] has 7x6 pixels, its image 8x6{}", train, kSkip));
  write(folder / "train/masks/b.png", png_of(Tensor::from(Bytes(144, 1), {6, 8, 3})));
  CHECK(get({{"classes", 2}}, false, 1).find("is a PNG of colours") != std::string::npos);
  write(folder / "train/masks/b.png", "no picture");
  CHECK(get({{"classes", 2}}, false, 1).find("b.png] is no PNG file") != std::string::npos);
  CHECK(get({}, false, 0).find("b.png] is no PNG file") !=
        std::string::npos);  // all are read for the classes
  const std::string whole = files::read_text(folder / "train/masks/a.png");
  write(folder / "train/masks/a.png", "no picture");
  const std::string both = get({}, false, 0);
  CHECK(both.find("a.png] is no PNG file") != std::string::npos);
  CHECK(both.find("b.png] is no PNG file") != std::string::npos);
  write(folder / "train/masks/a.png", whole);

  // As images are: skipped, and told of.
  std::vector<std::string> told;
  const SetOptions skips{.path = folder.path().string(), .skip_bad_samples = true};
  const Splits skipping = open_masked_set("masks", skips, {{"classes", 2}},
                                          [&](const std::string& reason) { told.push_back(reason); });
  CHECK(values(skipping.train->get(1).mask) == values(skipping.train->get(0).mask));
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("b.png") != std::string::npos);
  // Nor do they say how many classes there are, or of what size images are.
  const std::string image = files::read_text(folder / "train/images/a.png");
  write(folder / "train/images/a.png", "no picture");
  const Splits scanned = open_masked_set("masks", skips);
  CHECK(scanned.train->info().classes == 2);
  CHECK(scanned.train->info().sample_shape == Shape{6, 8, 3});
  write(folder / "train/masks/a.png", "no picture");
  CHECK(error_of([&] { open_masked_set("masks", skips); }).find("b.png] is no PNG file") !=
        std::string::npos);
  write(folder / "train/images/a.png", image);
  write(folder / "train/masks/a.png", whole);

  fs::remove(folder / "train/masks/b.png");
  CHECK(get({{"classes", 2}}, false, 0) ==
        fmt::format("[{0}/images/b.png] has no mask: there is no {0}/masks/b.png", train));
  fs::remove_all(folder / "train/images");
  CHECK(
      get({{"classes", 2}}, false, 0).starts_with(fmt::format("[{}/images] there is no such folder", train)));
  fs::create_directories(folder / "train/images");
  CHECK(get({{"classes", 2}}, false, 0) ==
        fmt::format("[{}/images] has no .jpg, .jpeg or .png file in it", train));
  CHECK(error_of([] { open_masked_set("masks"); }).starts_with("[data.path] masks needs a path"));
}

TEST_CASE("images of several sizes need to be told what becomes of them", "[mask_folder]") {
  const TempFolder folder;
  write_pair(folder / "train", "a", 1, 0);
  write_pair(folder / "train", "b", 1, 0, 9, 5);
  write_pair(folder / "test", "c", 1, 0, 12, 12);
  CHECK(error_of([&] {
          masks(folder).train->get(1);
        }).find("b.png] has 5x9 pixels, the first image 8x6; set data.image_size") != std::string::npos);
  const auto shape = [&](const options::Given& own, const std::vector<TransformSpec>& augment) {
    const Splits splits = masks(folder, own);
    const Pipeline pipeline(splits.train->info(),
                            with_sizes(splits.train->info(), splits.image_size, augment, false));
    std::vector<float> pixels(static_cast<std::size_t>(pipeline.output_shape().numel()));
    Bytes mask(pixels.size() / 3);
    pipeline.apply(splits.train->get(1), {}, {.image = pixels.data(), .mask = mask.data()});
    CHECK(std::ranges::count(mask, 1) > 0);
    return pipeline.output_shape();
  };
  CHECK(shape({{"image_size", 16}}, {}) == Shape{16, 16, 3});
  CHECK(shape({{"any_size", true}}, {{"random_crop", {{"size", {4}}, {"padding", {0}}}}}) == Shape{4, 4, 3});
  CHECK(error_of([&] {
          shape({{"any_size", true}}, {});
        }).find("masks differ in size; add a resize") != std::string::npos);
}
