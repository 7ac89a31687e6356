#include "data/boxes/stamp_scenes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/boxes/placing.h"

namespace tandem::datasets {

namespace {

constexpr Index kTrainingStampScenes = 5000, kTestStampScenes = 500;
constexpr std::int64_t kFirstTestStampScene = 100'000'001;  // no number is a training scene's, too
constexpr std::uint32_t kStampStream = 6;  // of the seed's synthetic data; item_scenes.cpp has 4 and 5

}  // namespace

struct StampScenes::Stamp {
  const Tensor* cutout = nullptr;
  Index label = 0;
  Rect to;  // of the scene
  bool mirrored = false;
};

StampScenes::StampScenes(CutoutMaterial material, const StampScenesOptions& options, std::uint64_t seed,
                         std::uint32_t split)
    : material_(std::move(material)), options_(options), seed_(seed), split_(split) {}

std::vector<StampScenes::Stamp> StampScenes::stamps(std::int64_t id) const {
  RandomStream random({.seed = seed_,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(id),
                       .step = split_,
                       .micro_batch = kStampStream});
  std::vector<Stamp> stamps;
  std::vector<Rect> taken;
  const std::uint32_t count = 1 + random.below(static_cast<std::uint32_t>(options_.most_items));
  const auto side = static_cast<double>(options_.scene_size);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto category = random.below(static_cast<std::uint32_t>(material_.cutouts.size()));
    Stamp stamp{.cutout = &any_of(material_.cutouts[category], random),
                .label = static_cast<Index>(category) + 1};
    const double longer =
        side * random.uniform(static_cast<float>(options_.scale[0]), static_cast<float>(options_.scale[1]));
    const Index height = stamp.cutout->size(0), width = stamp.cutout->size(1);
    const double factor = longer / static_cast<double>(std::max(height, width));
    const auto extent = [&](Index pixels) {
      return std::clamp<Index>(std::lround(static_cast<double>(pixels) * factor), 1, options_.scene_size);
    };
    stamp.mirrored = random.below(2) == 1;
    stamp.to = {0, 0, extent(height), extent(width)};
    if (!find_place(stamp.to, options_.scene_size, taken, random)) continue;
    taken.push_back(stamp.to);
    stamps.push_back(stamp);
  }
  return stamps;
}

BoxImage StampScenes::described(std::int64_t id, std::int64_t first_object) const {
  BoxImage image{.file = {},
                 .name = fmt::format("scene-{:09}", id),
                 .id = id,
                 .width = options_.scene_size,
                 .height = options_.scene_size,
                 .objects = {}};
  for (const Stamp& stamp : stamps(id)) {
    const Corners box{static_cast<double>(stamp.to.left), static_cast<double>(stamp.to.top),
                      static_cast<double>(stamp.to.right()), static_cast<double>(stamp.to.bottom())};
    image.objects.push_back({.box = box,
                             .label = stamp.label,
                             .id = first_object + static_cast<std::int64_t>(image.objects.size()),
                             .area = box.area()});
  }
  return image;
}

Tensor StampScenes::image(std::int64_t id) const {
  const Index side = options_.scene_size;
  const Tensor scene = Tensor::empty({side, side, 3}, {.dtype = DType::u8, .kind = MemoryKind::data});
  RandomStream random({.seed = seed_,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(id),
                       .step = split_,
                       .micro_batch = kStampStream + 1});
  draw_background(any_of(material_.photographs, random), random, scene);
  for (const Stamp& stamp : stamps(id)) draw_cutout(*stamp.cutout, stamp.to, stamp.mirrored, scene);
  return scene;
}

namespace {

BoxCorpus stamped(CutoutMaterial material, const StampScenesOptions& own, std::uint64_t seed, Index count,
                  std::uint32_t split) {
  require(count < kFirstTestStampScene, "data.train_size", "{} scenes, there can be {}", count,
          kFirstTestStampScene - 1);
  const auto scenes = std::make_shared<StampScenes>(std::move(material), own, seed, split);
  BoxCorpus corpus{.where = "stamps", .classes = {}, .images = {}, .tallies = {}, .maker = scenes};
  for (const std::string& name : own.from.categories) corpus.classes.add(name, corpus.classes.count() + 1);
  std::int64_t object = 1;
  const std::int64_t first = split == 0 ? 1 : kFirstTestStampScene;
  for (std::int64_t id = first; id < first + count; ++id) {
    corpus.images.push_back(scenes->described(id, object));
    object += static_cast<std::int64_t>(corpus.images.back().objects.size());
  }
  return corpus;
}

BoxSplits open_stamp_scenes(const StampScenesOptions& own, const SetOptions& common) {
  CutoutHalves halves = read_cutouts(own.from, common, own.scene_size, true);
  const Index training = common.train_size > 0 ? common.train_size : kTrainingStampScenes;
  const Index testing = common.test_size > 0 ? common.test_size : kTestStampScenes;
  return {.train = stamped(std::move(halves.train), own, common.seed(), training + common.validation_size, 0),
          .test = stamped(std::move(halves.test), own, common.seed(), testing, 1),
          .validation = {},
          .notes = {}};
}

}  // namespace

BoxSetFamily::Entry stamp_scenes_entry() {
  using Options = StampScenesOptions;
  return BoxSetFamily::entry<Options>(
      "stamps", "colour cut-outs with transparency on photographs, composed as they are asked for",
      options::Describe<Options>()
          .include(&Options::from)
          .key("scene_size", &Options::scene_size, "side of a scene in pixels", {.min = 16, .max = 4096})
          .key("most_items", &Options::most_items, "cut-outs in a scene, at most", {.min = 1, .max = 1000})
          .key("scale", &Options::scale, "range of a cut-out's longer side, as a share of the scene's",
               {.min = 0.0, .max = 1.0, .open_min = true})
          .rule("scale", "must be a range [low, high]",
                [](const Options& o) { return o.scale[0] <= o.scale[1]; }),
      open_stamp_scenes);
}

}  // namespace tandem::datasets
