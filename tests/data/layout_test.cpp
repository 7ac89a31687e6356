// Channels-first image arrays, and arrays with non-finite values.
#include "data/layout.h"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "data/npy.h"
#include "data/registry.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

template <class T>
Tensor counted(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), T{});
  return Tensor::from(values, shape);
}

void write_npz(const fs::path& path, const Tensor& images) {
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 1, 0, 1}, {4});
  const std::string bytes = npz_file({{"x_train", images}, {"y_train", labels}});
  write_file(path, Bytes(bytes.begin(), bytes.end()));
}

}  // namespace

TEST_CASE("shapes that look like images with their channels first", "[layout]") {
  for (const Shape& shape :
       {Shape{300, 3, 16, 16}, Shape{9, 1, 28, 28}, Shape{9, 1, 8, 8}, Shape{9, 3, 48, 64},
        Shape{9, 4, 480, 640}, Shape{9, 3, 640, 480}, Shape{9, 2, 5, 5}})
    CHECK(looks_channels_first(shape));
  // Images with their channels last, and what is no image: time series, single rows, vectors.
  for (const Shape& shape :
       {Shape{9, 16, 16, 3}, Shape{9, 28, 28, 1}, Shape{9, 3, 3, 3}, Shape{9, 1, 128, 9}, Shape{9, 1, 100, 6},
        Shape{9, 4, 4, 16}, Shape{9, 16, 16, 16}, Shape{9, 3, 16, 1}, Shape{9, 3, 16}, Shape{9, 3}})
    CHECK_FALSE(looks_channels_first(shape));
}

TEST_CASE("channels are brought to the end, whatever the type", "[layout]") {
  const Shape first{2, 3, 5, 7};
  const auto check = [&](const Tensor& images) {
    const Tensor last = channels_last(images, Layout::nchw, "x");
    REQUIRE(last.shape() == Shape{2, 5, 7, 3});
    CHECK(last.dtype() == images.dtype());
    const auto from = images.to_vector<double>(), to = last.to_vector<double>();
    for (Index n = 0; n < 2; ++n)
      for (Index c = 0; c < 3; ++c)
        for (Index y = 0; y < 5; ++y)
          for (Index x = 0; x < 7; ++x)
            REQUIRE(to[static_cast<std::size_t>(((n * 5 + y) * 7 + x) * 3 + c)] ==
                    from[static_cast<std::size_t>(((n * 3 + c) * 5 + y) * 7 + x)]);
  };
  check(counted<float>(first));
  check(counted<std::uint8_t>(first));
  CHECK(channels_last(counted<float>({2, 3, 5}), Layout::nchw, "x").shape() == Shape{2, 3, 5});
  CHECK(channels_last(counted<float>({2, 16, 16, 3}), Layout::automatic, "x").shape() == Shape{2, 16, 16, 3});
  CHECK(layout_from_name("nchw") == Layout::nchw);
  CHECK_THROWS_WITH(layout_from_name("chwn"), Contains("nchw"));
}

TEST_CASE("arrays with their channels first are refused until data.layout says so", "[layout]") {
  const TempFolder folder;
  const fs::path path = folder / "set.npz";
  write_npz(path, counted<std::uint8_t>({4, 3, 6, 6}));
  const auto open_npy = [&](const char* layout) {
    return open_dataset("npy", {.path = path}, {{"test_fraction", 0.5}, {"layout", layout}});
  };
  CHECK_THROWS_WITH(open_npy("auto"), Contains("set.npz:x_train") && Contains("[4,3,6,6]") &&
                                          Contains("data.layout=nchw") && Contains("data.layout=nhwc"));
  CHECK(open_npy("nchw").train->info().sample_shape == Shape{6, 6, 3});
  CHECK(open_npy("nchw").train->info().statistics.mean.size() == 3);
  CHECK(open_npy("nhwc").train->info().sample_shape == Shape{3, 6, 6});

  for (const char* split : {"train", "t10k"}) {
    write_file(folder / (std::string(split) + "-images-idx3-ubyte"),
               idx_bytes(8, {2, 1, 5, 5}, Bytes(50, 7)));
    write_file(folder / (std::string(split) + "-labels-idx1-ubyte"), idx_bytes(8, {2}, {0, 1}));
  }
  const auto open_idx = [&](const char* layout) {
    return open_dataset("idx", {.path = folder.path()}, {{"layout", layout}});
  };
  CHECK_THROWS_WITH(open_idx("auto"), Contains("train-images-idx3-ubyte") && Contains("data.layout=nchw"));
  CHECK(open_idx("nchw").test->info().sample_shape == Shape{5, 5, 1});
}

TEST_CASE("values that are not finite are refused by sample and place", "[layout]") {
  const TempFolder folder;
  const fs::path path = folder / "set.npz";
  const auto with = [&](const Shape& shape, std::size_t at, float value) {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()), 1.0F);
    values[at] = value;
    write_npz(path, Tensor::from(values, shape));
  };
  const LabelledSetOptions options{options::Choice<labelled_sets>("npy", {{"test_fraction", 0.5}}),
                                   {.path = path}};
  with({4, 5}, 13, std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_WITH(open_dataset(options), Contains("set.npz:x_train") && Contains("1 of 4 samples") &&
                                               Contains("sample 2 with nan at [3]"));
  with({4, 2, 3, 1}, 23, -std::numeric_limits<float>::infinity());
  CHECK_THROWS_WITH(open_dataset(options), Contains("sample 3 with -inf at [1,2,0]"));
  with({4, 5}, 13, 3e38F);
  CHECK_NOTHROW(open_dataset(options));
}

TEST_CASE("a path that is wrong is called data.path", "[registry]") {
  const TempFolder folder;
  write_file(folder / "file", Bytes{1});
  for (const char* name : {"fashion_mnist", "digits", "cifar10", "idx", "image_folder", "npy"}) {
    INFO(name);
    CHECK_THROWS_WITH(open_dataset(name, {.path = folder / "none"}),
                      Contains("[data.path] " + (folder / "none").string()));
    CHECK_THROWS_WITH(open_dataset(name, {.path = folder.path()}),
                      Contains("data.path") || Contains(folder.path().string()));
  }
  for (const char* name : {"fashion_mnist", "digits", "idx", "image_folder"})
    CHECK_THROWS_WITH(open_dataset(name, {.path = folder / "file"}),
                      Contains("[data.path]") && Contains("is a file, not a folder"));
  CHECK_THROWS_WITH(open_dataset("idx", {.path = folder.path()},
                                 {{"train_images", "file"},
                                  {"train_labels", "gone"},
                                  {"test_images", "file"},
                                  {"test_labels", "file"}}),
                    Contains("[data.train_labels]") && Contains("gone"));
}
