#include "samples/cutouts.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "data/decorators.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

constexpr Index kTrainingCutouts = 4800, kTestCutouts = 500;
constexpr Index kMeasuredCutouts = 200;  // scenes in the pixel statistics
constexpr std::uint32_t kCutoutStream = 4;

const TensorOptions kSceneBytes{.dtype = DType::u8, .kind = MemoryKind::data};

// Pastes a cut-out onto the scene at a random size and place, mirrored at random.
void paste(const Tensor& cutout, std::uint8_t label, std::array<double, 2> scale, RandomStream& random,
           const Sample& scene) {
  const Index side = scene.mask.size(0);
  const double longer =
      static_cast<double>(side) * random.uniform(static_cast<float>(scale[0]), static_cast<float>(scale[1]));
  const double factor = longer / static_cast<double>(std::max(cutout.size(0), cutout.size(1)));
  const auto extent = [&](Index pixels) {
    return std::clamp<Index>(std::lround(static_cast<double>(pixels) * factor), 1, side);
  };
  Rect to{.height = extent(cutout.size(0)), .width = extent(cutout.size(1))};
  to.top = random.below(static_cast<std::uint32_t>(side - to.height + 1));
  to.left = random.below(static_cast<std::uint32_t>(side - to.width + 1));
  const bool mirrored = random.below(2) == 1;
  draw_cutout(cutout, to, mirrored, scene.image, scene.mask, label);
}

Splits open_cutouts(const CutoutOptions& own, const SetOptions& common) {
  CutoutHalves halves = read_cutouts(own.from, common, own.image_size, false);
  const Index training = common.train_size > 0 ? common.train_size : kTrainingCutouts;
  const Index testing = common.test_size > 0 ? common.test_size : kTestCutouts;
  const auto train = std::make_shared<CutoutScenes>(std::move(halves.train), own,
                                                    training + common.validation_size, common.seed(), 0);
  train->set_statistics(statistics_of(*train, kMeasuredCutouts));
  const auto test = std::make_shared<CutoutScenes>(std::move(halves.test), own, testing, common.seed(), 1);
  test->set_statistics(train->info().statistics);
  return {.train = train, .test = test, .validation = {}};
}

}  // namespace

CutoutScenes::CutoutScenes(CutoutMaterial material, const CutoutOptions& options, Index count,
                           std::uint64_t seed, std::uint32_t split)
    : material_(std::move(material)), options_(options), count_(count), seed_(seed), split_(split) {
  require(count > 0 && count <= kMaxSamples, "cutouts", "cannot have {} scenes", count);
  info_.name = "cutouts";
  info_.sample_shape = {options.image_size, options.image_size, 3};
  info_.class_names = {"background"};
  info_.class_names.insert(info_.class_names.end(), options.from.categories.begin(),
                           options.from.categories.end());
  info_.classes = static_cast<Index>(info_.class_names.size());
  info_.masks = true;
}

Sample CutoutScenes::get(Index index) const {
  ensure(index >= 0 && index < count_, "cutouts", "scene {} is out of range, there are {}", index, count_);
  const Index side = options_.image_size;
  const Sample scene{.image = Tensor::empty({side, side, 3}, kSceneBytes),
                     .label = 0,
                     .mask = Tensor::zeros({side, side}, kSceneBytes)};
  RandomStream random({.seed = seed_,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(index),
                       .step = split_,
                       .micro_batch = kCutoutStream});
  draw_background(any_of(material_.photographs, random), random, scene.image);
  const auto shown = random.below(static_cast<std::uint32_t>(options_.most) + 1);
  for (std::uint32_t i = 0; i < shown; ++i) {
    const auto category = random.below(static_cast<std::uint32_t>(material_.cutouts.size()));
    paste(any_of(material_.cutouts[category], random), static_cast<std::uint8_t>(category + 1),
          options_.scale, random, scene);
  }
  return scene;
}

LabelledRegistry::Entry cutouts_entry() {
  return LabelledRegistry::entry<CutoutOptions>(
      "cutouts", "colour cut-outs with transparency on photographs, composed on demand",
      options::Describe<CutoutOptions>()
          .include(&CutoutOptions::from)
          .key("image_size", &CutoutOptions::image_size, "side of a scene in pixels", {.min = 8, .max = 4096})
          .key("most", &CutoutOptions::most, "maximum number of cut-outs in a scene", {.min = 1, .max = 1000})
          .key("scale", &CutoutOptions::scale,
               "range of a cut-out's longer side, relative to the scene's side",
               {.min = 0.0, .max = 1.0, .open_min = true})
          .rule("scale", "must be a range [low, high]",
                [](const CutoutOptions& o) { return o.scale[0] <= o.scale[1]; }),
      open_cutouts);
}

}  // namespace tandem::datasets
