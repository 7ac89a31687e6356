#include "samples/scenes.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/limits.h"
#include "data/transforms/render.h"

namespace tandem::datasets {

namespace {

constexpr Index kMaskedTrainingScenes = 4800, kMaskedTestScenes = 500;
constexpr Index kMeasuredScenes = 500;     // scenes in the pixel statistics
constexpr std::uint32_t kSceneStream = 2;  // of the seed's synthetic data; data/synthetic.cpp uses 0 and 1

// Fills the pixels with uniform random bytes in [0, range).
void fill_with_noise(const RandomKey& key, std::uint32_t range, std::span<std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += 16) {
    const auto words = philox(key, static_cast<std::uint32_t>(i / 16));
    for (std::size_t j = i; j < std::min(i + 16, pixels.size()); ++j)
      pixels[j] = static_cast<std::uint8_t>((words[(j - i) / 4] >> (8 * (j % 4)) & 0xff) * range >> 8);
  }
}

Splits items_of(const ScenesOptions& own, const SetOptions& common) {
  if (own.items == "fashion_mnist") {
    const FashionMnist sets = read_fashion_mnist(common.place());
    return {.train = sets.train, .test = sets.test, .validation = {}};
  }
  return open_digits({}, common);
}

Splits open_scenes(const ScenesOptions& own, const SetOptions& common) {
  const Splits items = items_of(own, common);
  const Index training = common.train_size > 0 ? common.train_size : kMaskedTrainingScenes;
  const Index testing = common.test_size > 0 ? common.test_size : kMaskedTestScenes;
  const auto train =
      std::make_shared<Scenes>(items.train, own, training + common.validation_size, common.seed(), 0);
  train->set_statistics(statistics_of(*train, kMeasuredScenes));
  const auto test = std::make_shared<Scenes>(items.test, own, testing, common.seed(), 1);
  test->set_statistics(train->info().statistics);
  return {.train = train, .test = test, .validation = {}};
}

}  // namespace

Scenes::Scenes(DatasetPtr items, const ScenesOptions& options, Index count, std::uint64_t seed,
               std::uint32_t split)
    : items_(std::move(items)), options_(options), count_(count), seed_(seed), split_(split) {
  const DatasetInfo& shown = items_->info();
  require(shown.dtype == DType::u8 && shown.sample_shape.rank() == 3 && shown.sample_shape[2] == 1, "scenes",
          "need 8-bit grey pictures, but {} has {} {}", shown.name, name_of(shown.dtype),
          to_string(shown.sample_shape));
  require(shown.classes + 1 < kIgnored, "scenes",
          "{} has {} classes; masks hold at most 254, background included", shown.name, shown.classes);
  require(options.item_size >= 1 && options.item_size <= options.image_size, "data.item_size",
          "pictures of {} pixels do not fit into scenes of {} (data.image_size)", options.item_size,
          options.image_size);
  require(count > 0 && count <= kMaxSamples, "scenes", "cannot have {} scenes", count);
  info_.name = "scenes";
  info_.sample_shape = {options.image_size, options.image_size, 1};
  info_.classes = shown.classes + 1;
  info_.class_names = {"background"};
  info_.class_names.insert(info_.class_names.end(), shown.class_names.begin(), shown.class_names.end());
  info_.masks = true;
}

Sample Scenes::get(Index index) const {
  ensure(index >= 0 && index < count_, "scenes", "scene {} is out of range, there are {}", index, count_);
  const Index side = options_.image_size, item = options_.item_size;
  const TensorOptions bytes{.dtype = DType::u8, .kind = MemoryKind::data};
  const Sample scene{
      .image = Tensor::empty({side, side, 1}, bytes), .label = 0, .mask = Tensor::zeros({side, side}, bytes)};
  RandomKey key{.seed = seed_,
                .purpose = RandomPurpose::synthetic_data,
                .call = static_cast<std::uint32_t>(index),
                .step = split_,
                .micro_batch = kSceneStream};
  RandomStream random(key);
  std::uint8_t* const pixels = scene.image.data<std::uint8_t>();
  std::uint8_t* const mask = scene.mask.data<std::uint8_t>();
  ++key.micro_batch;
  fill_with_noise(key, static_cast<std::uint32_t>(options_.noise * 255.0 + 0.5),
                  {pixels, static_cast<std::size_t>(side * side)});
  const auto shown = random.below(static_cast<std::uint32_t>(options_.most) + 1);
  for (std::uint32_t i = 0; i < shown; ++i) {
    const Sample picture = items_->get(random.below(static_cast<std::uint32_t>(items_->size())));
    const auto room = static_cast<std::uint32_t>(side - item + 1);
    const Index top = random.below(room), left = random.below(room);
    thread_local std::vector<float> values;
    resize_part(picture.image, {0, 0, picture.image.size(0), picture.image.size(1)}, item, item, values);
    for (Index y = 0; y < item; ++y) {
      for (Index x = 0; x < item; ++x) {
        const auto value = static_cast<std::uint8_t>(values[static_cast<std::size_t>(y * item + x)] + 0.5F);
        if (value <= kSeeThrough) continue;
        const Index at = (top + y) * side + left + x;
        pixels[at] = value;
        mask[at] = static_cast<std::uint8_t>(picture.label + 1);
      }
    }
  }
  return scene;
}

LabelledRegistry::Entry scenes_entry() {
  return LabelledRegistry::entry<ScenesOptions>(
      "scenes", "grey pictures on noise, composed on demand",
      options::Describe<ScenesOptions>()
          .key("items", &ScenesOptions::items,
               "pictures to paste: fashion_mnist (Debian's package dataset-fashion-mnist) or the digits that "
               "come with Tandem",
               {.choices = {"fashion_mnist", "digits"}})
          .key("image_size", &ScenesOptions::image_size, "side of a scene in pixels", {.min = 8, .max = 8192})
          .key("item_size", &ScenesOptions::item_size, "side of a picture in pixels", {.min = 1, .max = 8192})
          .key("most", &ScenesOptions::most, "maximum number of pictures in a scene", {.min = 1, .max = 1000})
          .key("noise", &ScenesOptions::noise,
               "upper limit of the background noise, as brightness; 1 is white", {.min = 0.0, .max = 1.0}),
      open_scenes);
}

}  // namespace tandem::datasets
