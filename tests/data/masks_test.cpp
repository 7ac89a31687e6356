// Masks follow the geometry of their images: in each transform, in batches, on devices.
#include <algorithm>
#include <catch2/catch.hpp>

#include "data/decorators.h"
#include "data/loader.h"
#include "data/preparation.h"
#include "data/sample_source.h"
#include "tests/data/files.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

Tensor u8(const Bytes& bytes, const Shape& shape) { return Tensor::from(bytes, shape); }

// An image of one channel that is its own mask.
Sample twin(const Tensor& mask) {
  return {.image = mask.viewed(mask.shape().inserted(2, 1)), .label = 0, .mask = mask};
}

DatasetInfo info_of(const Shape& image) {
  return {.name = "twins", .dtype = DType::u8, .sample_shape = image, .classes = 4, .masks = true};
}

struct Result {
  Shape shape;
  std::vector<int> image, mask;
};

// With arithmetic that keeps pixels as they are.
Result run(std::vector<TransformSpec> specs, const Sample& sample, const DrawKey& key) {
  specs.push_back({"normalise", {{"mean", {0}}, {"std", {1.0 / 255}}}});
  const Pipeline pipeline(info_of(sample.image.shape()), specs);
  const Shape& shape = pipeline.output_shape();
  std::vector<float> pixels(static_cast<std::size_t>(shape.numel()));
  Bytes mask(static_cast<std::size_t>(shape[0] * shape[1]));
  pipeline.apply(sample, key, {.image = pixels.data(), .mask = mask.data()});
  Result result{.shape = shape, .image = {}, .mask = {mask.begin(), mask.end()}};
  for (const float pixel : pixels) result.image.push_back(static_cast<int>(pixel + 0.5F));
  return result;
}

// Blocks of `side` pixels, of 50 or 200.
Tensor blocks(Index height, Index width, Index side) {
  Bytes values;
  const Bytes random = random_bytes(static_cast<std::size_t>(height * width), 9);
  for (Index y = 0; y < height; ++y)
    for (Index x = 0; x < width; ++x)
      values.push_back(random[static_cast<std::size_t>(y / side * width + x / side)] % 2 == 0 ? 50 : 200);
  return u8(values, {height, width});
}

// Samples i of 6x8 pixels whose mask has i in every row's first i pixels, else 255.
class Staircase final : public Dataset {
 public:
  explicit Staircase(Index size) : size_(size) {
    info_ = info_of({6, 8, 1});
    info_.name = "staircase";
  }
  Index size() const override { return size_; }
  Sample get(Index index) const override {
    Bytes bytes;
    for (Index i = 0; i < 48; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 8 < index ? index : 255));
    return twin(u8(bytes, {6, 8}));
  }

 private:
  Index size_;
};

Batch first_batch(const DatasetPtr& dataset, const std::vector<TransformSpec>& specs, SampleOptions options) {
  Loader loader(std::make_shared<SampleSource>(dataset, Pipeline(dataset->info(), specs), options));
  return *loader.next();
}

}  // namespace

TEST_CASE("a mask shows what its image shows, whatever is cut, padded and flipped", "[masks]") {
  const TransformSpec crop{"random_crop", {{"padding", {3}}, {"fill", {1}}}};
  const TransformSpec tight{"random_crop", {{"size", {7, 9}}, {"padding", {2}}, {"fill", {1}}}};
  const TransformSpec pad{"pad", {{"padding", {2}}, {"fill", {1}}}};
  const TransformSpec mirror{"horizontal_flip", {}}, flip{"vertical_flip", {}};
  const std::vector<TransformSpec> chains[] = {
      {}, {crop}, {mirror}, {flip}, {mirror, crop, flip}, {flip, tight, mirror, pad}, {crop, pad, crop}};
  const Sample sample = twin(u8(random_bytes(10 * 13, 4), {10, 13}));
  std::size_t moved = 0;
  for (const auto& chain : chains) {
    for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
      const Result result = run(chain, sample, {7, epoch, 1});
      REQUIRE(result.mask == result.image);  // what lies outside is 255 in both
      moved += result.mask != sample.mask.to_vector<int>() ? 1 : 0;
    }
  }
  CHECK(moved > 60);
}

TEST_CASE("colours, noise and holes leave a mask alone", "[masks]") {
  const Sample sample = twin(u8(random_bytes(8 * 8, 4), {8, 8}));
  const Result flipped = run({{"horizontal_flip", {{"probability", {1}}}}}, sample, {});
  const Result all = run({{"color_jitter", {{"brightness", {0.9}}}},
                          {"horizontal_flip", {{"probability", {1}}}},
                          {"cutout", {{"size", {4}}}}},
                         sample, {1, 2, 3});
  CHECK(all.image != flipped.image);
  CHECK(all.mask == flipped.mask);
  // A step that computes pixels in the middle does not lose what was outside.
  const TransformSpec pad{"pad", {{"padding", {2}}, {"fill", {1}}}};
  CHECK(run({pad, {"color_jitter", {{"brightness", {0.9}}}}, {"center_crop", {{"size", {12}}}}}, sample, {})
            .mask == run({pad}, sample, {}).mask);
}

TEST_CASE("a mask is resampled by the nearest pixel", "[masks]") {
  const Sample sample = twin(u8(random_bytes(6 * 9, 4), {6, 9}));
  const auto mask = sample.mask.to_vector<int>();
  for (const auto& [height, width] : {std::pair<Index, Index>{3, 3}, {12, 18}, {7, 5}, {6, 20}, {1, 1}}) {
    const Result result =
        run({{"resize", {{"size", {static_cast<double>(height), static_cast<double>(width)}}}}}, sample, {});
    REQUIRE(result.shape == Shape{height, width, 1});
    std::vector<int> expected;
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x) {
        const auto from_y =
            static_cast<Index>((static_cast<double>(y) + 0.5) * 6.0 / static_cast<double>(height));
        const auto from_x =
            static_cast<Index>((static_cast<double>(x) + 0.5) * 9.0 / static_cast<double>(width));
        expected.push_back(mask[static_cast<std::size_t>(from_y * 9 + from_x)]);
      }
    }
    CHECK(result.mask == expected);
  }
}

TEST_CASE("image and mask stay in register when both are resampled", "[masks]") {
  const Sample sample = twin(blocks(48, 64, 16));
  const TransformSpec zoom{"random_resized_crop", {{"size", {40, 56}}, {"scale", {0.2, 0.9}}}};
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const Result result = run({zoom, {"horizontal_flip", {}}, {"vertical_flip", {}}}, sample, {3, epoch, 0});
    std::size_t clear = 0, wrong = 0;
    for (std::size_t i = 0; i < result.image.size(); ++i) {
      if (result.image[i] != 50 && result.image[i] != 200)
        continue;  // on a border, where an image is blended
      ++clear;
      wrong += result.image[i] != result.mask[i] ? 1 : 0;
    }
    CHECK(clear > result.image.size() / 2);
    CHECK(wrong == 0);
  }
}

TEST_CASE("batches have masks in place of labels, and weigh what counts", "[masks]") {
  const auto dataset = std::make_shared<Staircase>(5);
  const Batch batch = first_batch(dataset, {}, {.batch_size = 5});
  std::vector<std::string> names;
  for (const Field& field : batch.fields()) names.push_back(field.name);
  CHECK(names == std::vector<std::string>{"image", "mask", "index"});
  CHECK(batch["mask"].shape() == Shape{5, 6, 8});
  CHECK(batch["mask"].dtype() == DType::u8);
  CHECK(batch.weight == 6 * (0 + 1 + 2 + 3 + 4));
  const auto mask = batch["mask"].to_vector<int>();
  CHECK(std::vector<int>(mask.begin() + 3 * 48, mask.begin() + 3 * 48 + 8) ==
        std::vector<int>{3, 3, 3, 255, 255, 255, 255, 255});
}

TEST_CASE("masks arrive with the images a device renders", "[masks]") {
  const auto dataset = std::make_shared<Staircase>(5);
  const std::vector<TransformSpec> specs{{"random_crop", {}}, {"horizontal_flip", {}}};
  const Batch here = first_batch(dataset, specs, {.batch_size = 5, .seed = 3});
  const Batch there =
      first_batch(dataset, specs, {.batch_size = 5, .seed = 3, .device = test::test_device()});
  CHECK(there["mask"].device() == test::test_device());
  CHECK(there["mask"].to_vector<int>() == here["mask"].to_vector<int>());
  CHECK(there["image"].to_vector<float>() == here["image"].to_vector<float>());
  CHECK(there.weight == here.weight);
}

TEST_CASE("a mask of another size than its image is refused", "[masks]") {
  const Tensor image = u8(Bytes(48, 1), {6, 8, 1});
  CHECK_THROWS_WITH(run({}, {.image = image, .label = 0, .mask = u8(Bytes(48, 1), {8, 6})}, {0, 0, 17}),
                    Contains("sample 17 has a mask of [8,6] for an image of [6,8,1]"));
}

TEST_CASE("mixing is refused for samples with masks", "[masks]") {
  for (const char* name : {"mixup", "cutmix"})
    CHECK_THROWS_WITH(Pipeline(info_of({6, 8, 1}), std::vector<TransformSpec>{{name, {}}}),
                      Contains("twins have masks"));
}

TEST_CASE("images with masks are brought to a size whole", "[masks]") {
  const DatasetInfo info = info_of({0, 0, 3});
  const auto names = [&](const std::vector<TransformSpec>& specs) {
    std::string text;
    for (const TransformSpec& spec : with_sizes(info, 96, specs, false)) text += spec.name + " ";
    return text;
  };
  CHECK(names({}) == "resize ");
  CHECK(names({{"horizontal_flip", {}}, {"random_crop", {}}}) == "resize horizontal_flip random_crop ");
  CHECK(names({{"random_crop", {{"size", {64}}}}}) == "random_crop ");
  CHECK(names({{"random_resized_crop", {}}}) == "random_resized_crop ");
  CHECK(Pipeline(info, with_sizes(info, 96, {}, false)).output_shape() == Shape{96, 96, 3});
}
