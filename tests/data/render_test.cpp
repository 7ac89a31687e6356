// Backend::render_images on the device under test against the host's renderer, bit for bit, and the pipelines
// that may use it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "core/backend.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/kernels/image.h"
#include "data/transforms/pipeline.h"
#include "tests/data/files.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

constexpr Index kHeight = 7, kWidth = 9;

Affine affine_of(Index channels) {
  Affine affine(channels);
  for (Index c = 0; c < channels; ++c) {
    affine.scale[c] = 1.0F / (255.0F * (0.21F + 0.01F * static_cast<float>(c)));
    affine.offset[c] = -0.47F + 0.3F * static_cast<float>(c);
  }
  return affine;
}

// Windows of the given size: inside the record, over each of its borders, over all of them, and beside it; as
// they are, mirrored, flipped and both; with changing fills.
std::vector<ImageWindow> windows_of(Index height, Index width) {
  const auto h = static_cast<std::int32_t>(height), w = static_cast<std::int32_t>(width);
  std::vector<ImageWindow> windows;
  for (const auto& [top, left] : std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 0},
                                                                                    {1, 2},
                                                                                    {-2, 1},
                                                                                    {1, -3},
                                                                                    {kHeight - h + 2, 0},
                                                                                    {0, kWidth - w + 1},
                                                                                    {-1, -1},
                                                                                    {-h, 0},
                                                                                    {2, kWidth}}) {
    for (int turned = 0; turned < 4; ++turned) {
      windows.push_back({.top = top,
                         .left = left,
                         .fill = 12.75F * static_cast<float>(windows.size() % 21),
                         .mirrored = static_cast<std::uint8_t>(turned & 1),
                         .flipped = static_cast<std::uint8_t>(turned >> 1)});
    }
  }
  return windows;
}

struct Records {
  Tensor pixels;  // u8 [N,kHeight,kWidth,C]
  std::vector<ImageWindow> windows;
  Affine affine;

  Index count() const { return static_cast<Index>(windows.size()); }
};

// What the host's renderer makes of the records, rounded to T.
template <class T>
std::vector<T> expected_of(const Records& records, Index height, Index width) {
  const Index channels = records.affine.channels();
  std::vector<float> image(static_cast<std::size_t>(height * width * channels));
  std::vector<T> result;
  RenderScratch scratch;
  for (Index n = 0; n < records.count(); ++n) {
    const ImageWindow& window = records.windows[static_cast<std::size_t>(n)];
    PixelSource source;
    source.bytes = records.pixels.data<std::uint8_t>() + n * kHeight * kWidth * channels;
    source.height = kHeight;
    source.width = kWidth;
    source.channels = channels;
    ImageView view = ImageView::whole(kHeight, kWidth);
    view.window = {window.top, window.left, height, width};
    view.mirrored = window.mirrored;
    view.flipped = window.flipped;
    view.fill = window.fill;
    render(source, view, records.affine, image.data(), scratch);
    for (const float value : image) result.push_back(convert<T>(value));
  }
  return result;
}

Tensor window_tensor(const std::vector<ImageWindow>& windows) {
  const Tensor result = Tensor::empty(
      {static_cast<Index>(windows.size()), static_cast<Index>(sizeof(ImageWindow))}, {.dtype = DType::u8});
  std::memcpy(result.raw(), windows.data(), result.bytes());
  return result;
}

// `skipped` elements before y put it off the 16-byte grid.
template <class T>
bool renders_alike(const Records& records, const Shape& shape, Index skipped) {
  const Device device = test::test_device();
  Backend& backend = backend_for(device);
  const Tensor memory =
      Tensor::full({shape.numel() + skipped}, 7, {.dtype = dtype_of<T>(), .device = device});
  const Tensor y = memory.rows(skipped, shape.numel()).viewed(shape);
  const Index channels = records.affine.channels();
  backend.image().render_images(records.pixels.to(device), window_tensor(records.windows).to(device),
                                {Tensor::from(records.affine.scale, {channels}, device),
                                 Tensor::from(records.affine.offset, {channels}, device)},
                                y);
  const std::vector<T> expected = expected_of<T>(records, shape[1], shape[2]);
  const Tensor found = y.to(Device{});
  backend.synchronize();
  return std::memcmp(found.raw(), expected.data(), found.bytes()) == 0;
}

}  // namespace

TEST_CASE("render_images gives the bits of the host's renderer", "[render]") {
  for (const Index channels : {1, 2, 3, 4, 5}) {
    for (const auto& [height, width] :
         std::vector<std::pair<Index, Index>>{{7, 9}, {5, 4}, {10, 13}, {1, 1}}) {
      Records records{{}, windows_of(height, width), affine_of(channels)};
      const Bytes bytes =
          random_bytes(static_cast<std::size_t>(records.count() * kHeight * kWidth * channels), 3);
      records.pixels = Tensor::from(bytes, {records.count(), kHeight, kWidth, channels});
      for (const Index skipped : {0, 1}) {
        CAPTURE(channels, height, width, skipped);
        const Shape shape{records.count(), height, width, channels};
        CHECK(renders_alike<float>(records, shape, skipped));
        CHECK(renders_alike<Half>(records, shape, skipped));
        CHECK(renders_alike<BFloat16>(records, shape, skipped));
        CHECK(renders_alike<double>(records, shape, skipped));
      }
    }
  }
}

TEST_CASE("render_images of no images does nothing", "[render]") {
  const Device device = test::test_device();
  const auto empty = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, {.dtype = dtype, .device = device});
  };
  backend_for(device).image().render_images(empty({0, 4, 4, 3}, DType::u8), empty({0, 16}, DType::u8),
                                            {empty({3}, DType::f32), empty({3}, DType::f32)},
                                            empty({0, 4, 4, 3}, DType::f32));
  backend_for(device).synchronize();
}

TEST_CASE("a pipeline takes windows when its transforms compose into one, whatever they draw", "[render]") {
  const auto takes = [](const std::vector<TransformSpec>& specs, DType dtype = DType::u8,
                        Shape shape = {8, 8, 3}) {
    return Pipeline({.name = "set", .dtype = dtype, .sample_shape = shape, .classes = 4}, specs)
        .takes_windows();
  };
  const TransformSpec crop{"random_crop", {}}, mirror{"horizontal_flip", {}}, flip{"vertical_flip", {}};
  const TransformSpec tight{"random_crop", {{"size", {6}}, {"padding", {0}}}}, pad{"pad", {{"padding", {2}}}};
  const TransformSpec centre{"center_crop", {{"size", {4}}}}, wide{"center_crop", {{"size", {12, 4}}}};
  CHECK(takes({}));
  CHECK(takes({crop, mirror, flip}));
  CHECK(takes({mirror, crop, centre}));
  CHECK(takes({pad, tight, mirror}));
  CHECK(takes({wide, flip}));
  CHECK(takes({}, DType::u8, {40}));
  // Padding after a crop.
  CHECK_FALSE(takes({tight, crop}));
  CHECK_FALSE(takes({centre, pad}));
  CHECK_FALSE(takes({centre, wide}));
  // Pixels that are changed, resampled or mixed.
  CHECK_FALSE(takes({crop, {"cutout", {}}}));
  CHECK_FALSE(takes({{"color_jitter", {}}}));
  CHECK_FALSE(takes({{"random_resized_crop", {}}}));
  CHECK_FALSE(takes({{"resize", {{"size", {6}}}}}));
  CHECK_FALSE(takes({mirror, {"mixup", {}}}));
  // No records of one size.
  CHECK_FALSE(takes({}, DType::f32));
  CHECK_FALSE(takes({centre}, DType::u8, {0, 0, 3}));
}

TEST_CASE("a window is refused to a record of another size", "[render]") {
  const Pipeline pipeline({.name = "set", .sample_shape = {8, 8, 3}}, {});
  CHECK_THROWS_WITH(pipeline.window({Tensor::zeros({8, 9, 3}, {.dtype = DType::u8})}, {}),
                    Contains("[8,9,3]") && Contains("[8,8,3]"));
}
