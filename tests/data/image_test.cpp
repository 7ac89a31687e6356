// Decoding of JPEG and PNG, good and bad.
#include <fmt/core.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "data/image_file.h"
#include "data/image_folder.h"
#include "data/io/byte_reader.h"
#include "data/limits.h"
#include "data/registry.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

Tensor decode(const Bytes& bytes, int channels = 3) {
  return decode_image(as_bytes(bytes), "memory", channels);
}
std::vector<int> values(const Tensor& image) { return image.to_vector<int>(); }

double mean_difference(const Tensor& image, const Bytes& expected) {
  const std::vector<int> got = values(image);
  REQUIRE(got.size() == expected.size());
  double sum = 0;
  for (std::size_t i = 0; i < got.size(); ++i) sum += std::abs(got[i] - expected[i]);
  return sum / static_cast<double>(got.size());
}

// Smooth enough for JPEG to keep.
Bytes gradient(std::uint32_t width, std::uint32_t height, int channels) {
  Bytes pixels;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(c == 0   ? 255 * x / width
                                                   : c == 1 ? 255 * y / height
                                                            : 128));
      }
    }
  }
  return pixels;
}

// The same file with its IHDR claiming other extents, checksum included.
Bytes with_png_size(Bytes bytes, std::uint32_t width, std::uint32_t height) {
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; ++i)
      bytes[at + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
  };
  put(16, width);
  put(20, height);
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 12; i < 29; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  put(29, ~crc);
  return bytes;
}

}  // namespace

TEST_CASE("PNG of every colour type becomes RGB or grey", "[image]") {
  CHECK(values(decode(png_bytes({.color_type = 2}, {10, 20, 30}))) == std::vector<int>{10, 20, 30});
  CHECK(values(decode(png_bytes({.color_type = 0}, {77}))) == std::vector<int>{77, 77, 77});
  CHECK(values(decode(png_bytes({.color_type = 0}, {77}), 1)) == std::vector<int>{77});
  // 16 bits: v·255/65535, rounded.
  CHECK(values(decode(png_bytes({.color_type = 0, .bit_depth = 16}, {0x80, 0xff}), 1)) ==
        std::vector<int>{128});
  CHECK(values(decode(png_bytes({.color_type = 2, .bit_depth = 16}, {0xff, 0xff, 0, 0x10, 0x01, 0x01}))) ==
        std::vector<int>{255, 0, 1});
  CHECK(values(decode(png_bytes({.width = 2, .color_type = 3}, {2, 1}))) ==
        std::vector<int>{0, 0, 255, 0, 255, 0});
  CHECK(values(decode(png_bytes({.width = 8, .color_type = 0, .bit_depth = 1}, {0b10110001}), 1)) ==
        std::vector<int>{255, 0, 255, 255, 0, 0, 0, 255});
  // Luma of red, green and blue.
  CHECK(values(decode(png_bytes({.width = 3, .color_type = 2}, {255, 0, 0, 0, 255, 0, 0, 0, 255}), 1)) ==
        std::vector<int>{76, 150, 29});
}

TEST_CASE("transparent PNGs are laid over white", "[image]") {
  const Bytes rgba = {10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 128};
  CHECK(values(decode(png_bytes({.width = 3, .color_type = 6}, rgba))) ==
        std::vector<int>{10, 20, 30, 255, 255, 255, 127, 127, 127});
  CHECK(values(decode(png_bytes({.width = 2, .color_type = 4}, {40, 255, 40, 0}), 1)) ==
        std::vector<int>{40, 255});
  CHECK(values(decode(png_bytes({.width = 1, .color_type = 4}, {40, 255}), 3)) ==
        std::vector<int>{40, 40, 40});
  CHECK(values(decode(png_bytes({.color_type = 6, .bit_depth = 16}, {0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff}))) ==
        std::vector<int>{255, 0, 0});
}

TEST_CASE("interlaced PNGs are read", "[image]") {
  const Bytes pixels = random_bytes(13 * 7 * 3, 3);
  const Tensor image = decode(png_bytes({.width = 13, .height = 7, .interlaced = true}, pixels));
  CHECK(image.shape() == Shape{7, 13, 3});
  CHECK(mean_difference(image, pixels) == 0);
}

TEST_CASE("JPEG of every colour space becomes RGB or grey", "[image]") {
  const bool progressive = GENERATE(false, true);
  const Bytes rgb = gradient(40, 24, 3);
  const Tensor image = decode(jpeg_bytes({40, 24, 3, 95, progressive}, rgb));
  CHECK(image.shape() == Shape{24, 40, 3});
  CHECK(mean_difference(image, rgb) < 3);
  const Bytes grey = gradient(40, 24, 1);
  CHECK(mean_difference(decode(jpeg_bytes({40, 24, 1, 95, progressive}, grey), 1), grey) < 2);
  const std::vector<int> repeated = values(decode(jpeg_bytes({40, 24, 1, 95, progressive}, grey), 3));
  bool equal = true;
  for (std::size_t i = 0; i < repeated.size(); i += 3) equal = equal && repeated[i] == repeated[i + 2];
  CHECK(equal);
  Bytes luma;
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    luma.push_back(
        static_cast<std::uint8_t>(std::lround(0.299 * rgb[i] + 0.587 * rgb[i + 1] + 0.114 * rgb[i + 2])));
  }
  CHECK(mean_difference(decode(jpeg_bytes({40, 24, 3, 95, progressive}, rgb), 1), luma) < 2);
}

TEST_CASE("CMYK JPEG becomes RGB", "[image]") {
  // libjpeg writes the Adobe marker for CMYK, so the inks are inverted: 255 is none.
  Bytes cmyk, rgb;
  for (int i = 0; i < 64; ++i) {
    for (const int value : {255, 128, 0, 200}) cmyk.push_back(static_cast<std::uint8_t>(value));
    for (const int value : {200, 100, 0}) rgb.push_back(static_cast<std::uint8_t>(value));
  }
  CHECK(mean_difference(decode(jpeg_bytes({8, 8, 4}, cmyk)), rgb) < 3);
  Bytes grey(64, static_cast<std::uint8_t>(std::lround(0.299 * 200 + 0.587 * 100)));
  CHECK(mean_difference(decode(jpeg_bytes({8, 8, 4}, cmyk), 1), grey) < 3);
}

TEST_CASE("images of one pixel", "[image]") {
  CHECK(decode(jpeg_bytes({1, 1, 3}, {9, 9, 9})).shape() == Shape{1, 1, 3});
  CHECK(decode(png_bytes({}, {1, 2, 3})).shape() == Shape{1, 1, 3});
}

TEST_CASE("images that cannot be decoded are refused by name", "[image]") {
  const Bytes png = png_bytes({.width = 9, .height = 9}, random_bytes(243, 5));
  const Bytes jpeg = jpeg_bytes({32, 32, 3, 90, GENERATE(false, true)}, random_bytes(32 * 32 * 3, 6));
  CHECK_THROWS_WITH(decode({}), Contains("neither a JPEG nor a PNG") && Contains("[memory]"));
  CHECK_THROWS_WITH(decode({'G', 'I', 'F', '8', '9', 'a'}), Contains("neither a JPEG nor a PNG"));
  for (const Bytes& whole : {png, jpeg}) {
    // The two bytes of JPEG's end marker, and PNG's checksum of the end, are not needed for the pixels.
    for (std::size_t size = 0; size + 4 < whole.size(); size += 1 + whole.size() / 61) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK_THROWS_AS(decode(cut), UserError);
    }
    Bytes garbage = whole;
    const Bytes noise = random_bytes(garbage.size(), 8);
    std::copy(noise.begin() + 16, noise.end(), garbage.begin() + 16);
    CHECK_THROWS_WITH(decode(garbage), Contains("cannot be decoded"));
  }
  Bytes flipped = png;
  flipped[50] ^= 0x10;
  CHECK_THROWS_WITH(decode(flipped), Contains("cannot be decoded as PNG"));
  CHECK_THROWS_WITH(decode(with_png_size(png, 20000, 20000)), Contains("limit"));
  CHECK_THROWS_WITH(decode(with_png_size(png, 12000, 12000)), Contains("not plausible"));
  CHECK_THROWS_WITH(decode(with_png_size(png, 0, 5)), Contains("cannot be decoded"));
  CHECK_THROWS_WITH(decode(with_png_size(png, 0x7fffffff, 0x7fffffff)), Contains("cannot be decoded"));
}

TEST_CASE("decoding an image takes no more memory than it is allowed", "[image]") {
  constexpr std::uint32_t kSide = 512;
  constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
  const Bytes rgba = random_bytes(kPixels * 4, 7);
  const Bytes rgb(rgba.begin(), rgba.begin() + kPixels * 3);
  struct Way {
    const char* name;
    Bytes file;
    int channels;
    std::size_t bytes;  // beside the file
  };
  const auto png = [&](int color_type, bool interlaced, const Bytes& rows) {
    return png_bytes({.width = kSide, .height = kSide, .color_type = color_type, .interlaced = interlaced},
                     rows);
  };
  const std::vector<Way> ways = {
      {"colour", png(2, false, rgb), 3, kPixels * 3},
      {"colour to grey", png(2, false, rgb), 1, kPixels},
      {"transparent", png(6, false, rgba), 3, kPixels * 3},
      {"transparent to grey", png(6, false, rgba), 1, kPixels},
      {"transparent and interlaced", png(6, true, rgba), 3, kPixels * 4},
      {"JPEG", jpeg_bytes({kSide, kSide, 3, 90, false}, rgb), 3, kPixels * 3},
      // Coefficients of 16 bits: luma, and colours at half the size.
      {"progressive JPEG", jpeg_bytes({kSide, kSide, 3, 90, true}, rgb), 3, kPixels * 3 + kPixels * 3},
  };
  for (const Way& way : ways) {
    INFO(way.name);
    const std::size_t enough = way.file.size() + way.bytes;
    host_allocator().reset_peak();
    const std::size_t before = host_allocator().figures().live;
    const Tensor image = decode_image(as_bytes(way.file), "big.png", way.channels, {.memory = enough});
    CHECK(host_allocator().figures().peak - before <= way.bytes);
    CHECK(image.shape() == Shape{kSide, kSide, way.channels});
    CHECK_THROWS_WITH(
        decode_image(as_bytes(way.file), "big.png", way.channels, {.memory = enough - 1}),
        Contains("[big.png] has 512x512 pixels: decoding takes") && Contains("data.max_image_mib allows"));
  }
  // The limit nobody has changed: 13,000² pixels in colour are 484 MiB.
  Bytes thirteen = with_png_size(ways[0].file, 13000, 13000);
  CHECK_THROWS_WITH(decode(thirteen), Contains("has 13000x13000 pixels: decoding takes") &&
                                          Contains("data.max_image_mib allows 256"));
}

TEST_CASE("an image file larger than an image may be is not read", "[image]") {
  const TempFolder folder;
  write_file(folder / "large.png", Bytes(100000, 0));
  CHECK_THROWS_WITH(read_image(folder / "large.png", 3, {.memory = 99999}),
                    Contains("large.png") && Contains("has 100000 bytes") && Contains("data.max_image_mib"));
}

TEST_CASE("the same pixels come from every way to store them", "[image]") {
  const Bytes rgba = random_bytes(13 * 7 * 4, 9);
  for (const int channels : {1, 3}) {
    const Tensor plain = decode(png_bytes({.width = 13, .height = 7, .color_type = 6}, rgba), channels);
    const Tensor interlaced =
        decode(png_bytes({.width = 13, .height = 7, .color_type = 6, .interlaced = true}, rgba), channels);
    CHECK(plain.shape() == Shape{7, 13, channels});
    CHECK(values(plain) == values(interlaced));
  }
}

TEST_CASE("a JPEG with ever more progressive scans is refused", "[image]") {
  // Repeats the last scan of a progressive file.
  const Bytes whole = jpeg_bytes({16, 16, 1, 90, true}, gradient(16, 16, 1));
  std::size_t scan = 0;
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    if (whole[i] == 0xff && whole[i + 1] == 0xda) scan = i;
  }
  REQUIRE(scan > 0);
  Bytes bytes(whole.begin(), whole.end() - 2);
  for (int i = 0; i < kMaxProgressiveScans + 100; ++i) {
    bytes.insert(bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(scan), whole.end() - 2);
  }
  bytes.insert(bytes.end(), {0xff, 0xd9});
  CHECK_THROWS_AS(decode(bytes), UserError);
}

TEST_CASE("a folder of images is a data set", "[image_folder]") {
  const TempFolder folder;
  const auto add = [&](const std::string& name, std::uint8_t value) {
    write_file(folder / name, png_bytes({.width = 6, .height = 4, .color_type = 0}, Bytes(24, value)));
  };
  add("cat/b.png", 2);
  add("cat/a.PNG", 1);
  add("cat/deeper/c.png", 3);
  add("ant/z.png", 4);
  write_file(folder / "ant/notes.txt", {1});
  write_file(folder / "bee/x.jpeg", jpeg_bytes({8, 8, 3}, gradient(8, 8, 3)));
  fs::create_directory(folder / ".hidden");
  const ImageFolder set(folder.path(), 3);
  CHECK(set.info().class_names == std::vector<std::string>{"ant", "bee", "cat"});
  CHECK(set.labels() == std::vector<std::int64_t>{0, 1, 2, 2, 2});
  CHECK(set.file(2).filename() == "a.PNG");
  CHECK(values(set.get(4).image).front() == 3);
  CHECK(set.get(0).image.shape() == Shape{4, 6, 3});
  CHECK(set.get(1).label == 1);
  CHECK(set.info().sample_shape == Shape{0, 0, 3});

  CHECK_THROWS_WITH(ImageFolder(folder.path(), 3, {"ant", "cats", "be"}),
                    Contains("\"bee\" is not in the training split") && Contains("did you mean \"be\""));
  CHECK_THROWS_WITH(ImageFolder(folder / "none", 3), Contains("no such folder"));
  CHECK_THROWS_WITH(ImageFolder(folder / "bee", 3), Contains("no subfolders"));
  fs::create_directory(folder / "empty");
  CHECK_THROWS_WITH(ImageFolder(folder.path(), 3), Contains("empty") && Contains("has no .jpg"));
}

TEST_CASE("image folders are split by folder or by class", "[image_folder]") {
  const TempFolder folder;
  const auto add = [&](const std::string& name, std::uint8_t value) {
    write_file(folder / name, png_bytes({.width = 20, .height = 10, .color_type = 0}, Bytes(200, value)));
  };
  SECTION("by class, deterministically") {
    for (int i = 0; i < 10; ++i) {
      add("one/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(i));
      add("two/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(100 + i));
    }
    const LabelledSetOptions options{options::Choice<labelled_sets>("image_folder", {{"image_size", 8}}),
                                     {.path = folder.path()}};
    const Splits splits = open_dataset(options);
    REQUIRE(splits.train->size() == 16);
    REQUIRE(splits.test->size() == 4);
    const auto pixels = [](const DatasetPtr& set) {
      std::vector<int> result;
      for (Index i = 0; i < set->size(); ++i) result.push_back(values(set->get(i).image).front());
      return result;
    };
    std::vector<int> all = pixels(splits.train);
    const std::vector<int> test = pixels(splits.test);
    CHECK(std::count_if(test.begin(), test.end(), [](int value) { return value < 100; }) == 2);
    all.insert(all.end(), test.begin(), test.end());
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    CHECK(pixels(open_dataset(options).test) == test);
    CHECK(training_pipeline(splits, {}).output_shape() == Shape{8, 8, 3});
    const std::vector<TransformSpec> augment = {{"random_resized_crop", {}}};
    CHECK(training_pipeline(splits, augment).output_shape() == Shape{8, 8, 3});
    CHECK(evaluation_pipeline(splits, augment).output_shape() == Shape{8, 8, 3});
  }
  SECTION("by folder") {
    for (const char* name :
         {"train/a/1.png", "train/b/1.png", "train/b/2.png", "val/b/1.png", "test/a/1.png"})
      add(name, 1);
    const Splits splits = open_dataset("image_folder", {.path = folder.path()});
    CHECK(splits.train->size() == 3);
    CHECK(splits.validation->get(0).label == 1);
    CHECK(splits.test->get(0).label == 0);
    CHECK(training_pipeline(splits, {}).output_shape() == Shape{224, 224, 3});
    fs::remove_all(folder / "test");
    CHECK(open_dataset("image_folder", {.path = folder.path()}).test->get(0).label == 1);
    fs::remove_all(folder / "val");
    CHECK_THROWS_WITH(open_dataset("image_folder", {.path = folder.path()}),
                      Contains("neither test/ nor val/"));
  }
}

TEST_CASE("bad images stop the run or are skipped up to a limit", "[image_folder]") {
  const TempFolder folder;
  for (int i = 0; i < 6; ++i) {
    const bool bad = i == 1 || i == 2 || i == 5;
    write_file(folder / ("train/a/" + std::to_string(i) + ".png"),
               bad ? Bytes{1, 2, 3} : png_bytes({.color_type = 0}, {static_cast<std::uint8_t>(i)}));
  }
  write_file(folder / "test/a/0.png", png_bytes({}, {0, 0, 0}));
  const auto open_folder = [&](bool skips, Index at_most = 100, const SampleReport& report = {}) {
    return open_dataset("image_folder",
                        {.path = folder.path(), .skip_bad_samples = skips, .max_bad_samples = at_most}, {},
                        report);
  };
  CHECK_THROWS_WITH(open_folder(false).train->get(1), Contains("1.png") && Contains("neither"));
  std::vector<std::string> reports;
  const Splits splits = open_folder(true, 100, [&](const std::string& reason) { reports.push_back(reason); });
  CHECK(values(splits.train->get(1).image).front() == 3);
  CHECK(values(splits.train->get(1).image).front() == 3);
  CHECK(values(splits.train->get(5).image).front() == 0);
  REQUIRE(reports.size() == 3);
  CHECK_THAT(reports[0], Contains("1.png"));
  const auto open_strict = [&](Index at_most) { return open_folder(true, at_most); };
  const Splits strict = open_strict(1);
  CHECK(values(strict.train->get(5).image).front() == 0);
  CHECK_THROWS_WITH(strict.train->get(1), Contains("more than 1 samples") && Contains("max_bad_samples"));
  CHECK_THROWS_WITH(open_strict(1).train->get(1), Contains("more than 1 samples"));
  CHECK(values(open_strict(2).train->get(1).image).front() == 3);
}

// Nothing that is trained on judges, and nothing that judges is trained on.
TEST_CASE("a sample that stands in for a bad one is of the same split", "[image_folder]") {
  for (int bad = 0; bad < 8; ++bad) {
    CAPTURE(bad);
    const TempFolder folder;
    for (int i = 0; i < 8; ++i)
      write_file(folder / fmt::format("a/{}.png", i),
                 i == bad ? Bytes{1, 2, 3} : png_bytes({.color_type = 0}, {static_cast<std::uint8_t>(i)}));
    const Splits splits =
        open_dataset("image_folder", {.path = folder.path(), .validation_size = 3, .skip_bad_samples = true});
    std::map<int, std::set<const Dataset*>> shown_by;
    for (const DatasetPtr& split : {splits.train, splits.validation, splits.test})
      for (Index i = 0; i < split->size(); ++i)
        shown_by[values(split->get(i).image).front()].insert(split.get());
    for (const auto& [value, by] : shown_by) CHECK(by.size() == 1);
  }
}

TEST_CASE("decoding an image takes no more memory than it may", "[image_folder]") {
  const TempFolder folder;
  const Bytes large = png_bytes({.width = 1000, .height = 1000}, Bytes(3'000'000, 1));
  for (const char* name : {"train/a/0.png", "test/a/0.png"}) write_file(folder / name, large);
  const auto open_within = [&](Index mib) {
    return open_dataset("image_folder", {.path = folder.path(), .max_image_mib = mib});
  };
  CHECK_THROWS_WITH(open_within(1).train->get(0), Contains("0.png") && Contains("data.max_image_mib"));
  CHECK_THROWS_WITH(open_within(1).test->get(0), Contains("0.png") && Contains("data.max_image_mib"));
  CHECK_NOTHROW(open_within(256).train->get(0));
}

TEST_CASE("image names that are no files are named, or skipped with unreadable ones", "[image_folder]") {
  const TempFolder folder;
  for (const char* name : {"train/a/0.png", "test/a/0.png"})
    write_file(folder / name, png_bytes({}, {1, 2, 3}));
  fs::create_directory(folder / "train/a/folder.png");  // a folder all the same
  write_file(folder / "train/a/folder.png/1.png", png_bytes({}, {1, 2, 3}));
  const SetOptions set{.path = folder.path()};
  CHECK(open_dataset("image_folder", set).train->size() == 2);
  const fs::path bad = folder / "train/a/x.png";
  const auto check = [&](const std::string& what) {
    CHECK_THROWS_WITH(open_dataset("image_folder", set), Contains("x.png] " + what));
    std::string reported;
    const Splits splits = open_dataset("image_folder", {.path = folder.path(), .skip_bad_samples = true}, {},
                                       [&](const std::string& line) { reported += line; });
    REQUIRE(splits.train->size() == 3);
    for (Index i = 0; i < 3; ++i) splits.train->get(i);
    CHECK_THAT(reported, Contains("x.png] " + what));
    fs::remove(bad);
  };
  fs::create_symlink("x.png", bad);
  check("is a loop of symbolic links");
  fs::create_symlink("nowhere", bad);
  check("is a symbolic link to nothing");
  REQUIRE(::mkfifo(bad.c_str(), 0600) == 0);
  check("is a FIFO, not a regular file");
  fs::create_symlink("/dev/zero", bad);
  check("is a device, not a regular file");
}

TEST_CASE("loops of symbolic links in place of data are named", "[image_folder]") {
  const TempFolder folder;
  const fs::path loop = folder / "loop", fifo = folder / "fifo";
  fs::create_symlink("loop", loop);
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const char* name : {"image_folder", "idx", "npy", "cifar10", "cifar100", "digits", "fashion_mnist"}) {
    INFO(name);
    CHECK_THROWS_AS(open_dataset(name, {.path = fifo}), UserError);
    CHECK_THROWS_WITH(open_dataset(name, {.path = loop}), Contains("is a loop of symbolic links"));
  }
  CHECK_THROWS_WITH(open_dataset("npy", {.path = fifo}), Contains("is a FIFO, not a regular file"));
  CHECK_THROWS_WITH(open_dataset("idx", {.path = fifo}), Contains("is a FIFO, not a folder"));
  CHECK_THROWS_WITH(open_dataset("image_folder", {.path = fifo}), Contains("is a FIFO, not a folder"));
  CHECK_THROWS_WITH(open_dataset("idx", {.path = folder.path()},
                                 {{"train_images", "fifo"},
                                  {"train_labels", "fifo"},
                                  {"test_images", "fifo"},
                                  {"test_labels", "fifo"}}),
                    Contains("is a FIFO, not a regular file"));
  write_file(folder / "images/train/a/0.png", png_bytes({}, {1, 2, 3}));
  fs::create_symlink("b", folder / "images/train/b");
  CHECK_THROWS_WITH(ImageFolder(folder / "images/train", 3),
                    Contains("train/b] is a loop of symbolic links"));
  fs::remove(folder / "images/train/b");
  fs::create_symlink("nowhere", folder / "images/train/b");
  CHECK_THROWS_WITH(ImageFolder(folder / "images/train", 3),
                    Contains("train/b] is a symbolic link to nothing"));
}

TEST_CASE("a list of class names that is no file is named", "[cifar]") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "names").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_lines(folder / "names"), Contains("is a FIFO, not a regular file"));
  CHECK(read_lines(folder / "none").empty());
}
