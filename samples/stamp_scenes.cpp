#include "samples/stamp_scenes.h"

#include <algorithm>
#include <cmath>

namespace tandem::datasets {

namespace {

constexpr std::uint32_t kStampStream = 6;  // of the seed's synthetic data; item_scenes.cpp uses 4 and 5

BoxSplits open_stamp_scenes(const StampScenesOptions& own, const SetOptions& common) {
  CutoutHalves halves = read_cutouts(own.from, common, own.scene_size, true);
  return splits_of_scenes("stamps", own.from.categories,
                          std::make_shared<StampScenes>(std::move(halves.train), own, common.seed(), 0),
                          std::make_shared<StampScenes>(std::move(halves.test), own, common.seed(), 1),
                          common);
}

}  // namespace

struct StampScenes::Stamp {
  const Tensor* cutout = nullptr;
  Index label = 0;
  Rect to;  // in the scene
  bool mirrored = false;
};

StampScenes::StampScenes(CutoutMaterial material, const StampScenesOptions& options, std::uint64_t seed,
                         std::uint32_t split)
    : ComposedScenes(options.scene_size, seed, split, kStampStream),
      material_(std::move(material)),
      options_(options) {}

std::vector<StampScenes::Stamp> StampScenes::stamps(std::int64_t id) const {
  RandomStream random = drawing_things(id);
  std::vector<Stamp> stamps;
  std::vector<Rect> taken;
  const std::uint32_t count = 1 + random.below(static_cast<std::uint32_t>(options_.most_items));
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto category = random.below(static_cast<std::uint32_t>(material_.cutouts.size()));
    Stamp stamp{.cutout = &any_of(material_.cutouts[category], random),
                .label = static_cast<Index>(category) + 1};
    const double longer = static_cast<double>(side()) * random.uniform(static_cast<float>(options_.scale[0]),
                                                                       static_cast<float>(options_.scale[1]));
    const Index height = stamp.cutout->size(0), width = stamp.cutout->size(1);
    const double factor = longer / static_cast<double>(std::max(height, width));
    const auto extent = [&](Index pixels) {
      return std::clamp<Index>(std::lround(static_cast<double>(pixels) * factor), 1, side());
    };
    stamp.mirrored = random.below(2) == 1;
    stamp.to = {0, 0, extent(height), extent(width)};
    if (!find_place(stamp.to, taken, random)) continue;
    taken.push_back(stamp.to);
    stamps.push_back(stamp);
  }
  return stamps;
}

std::vector<ComposedScenes::Thing> StampScenes::things(std::int64_t id) const {
  std::vector<Thing> things;
  for (const Stamp& stamp : stamps(id)) things.push_back({.to = stamp.to, .label = stamp.label});
  return things;
}

Tensor StampScenes::image(std::int64_t id) const {
  const Index side = this->side();
  const Tensor scene = Tensor::empty({side, side, 3}, {.dtype = DType::u8, .kind = MemoryKind::data});
  RandomStream random = drawing_ground(id);
  draw_background(any_of(material_.photographs, random), random, scene);
  for (const Stamp& stamp : stamps(id)) draw_cutout(*stamp.cutout, stamp.to, stamp.mirrored, scene);
  return scene;
}

BoxSetRegistry::Entry stamp_scenes_entry() {
  using Options = StampScenesOptions;
  return BoxSetRegistry::entry<Options>(
      "stamps", "colour cut-outs with transparency on photographs, composed on demand",
      options::Describe<Options>()
          .include(&Options::from)
          .key("scene_size", &Options::scene_size, "side of a scene in pixels", {.min = 16, .max = 4096})
          .key("most_items", &Options::most_items, "maximum number of cut-outs in a scene",
               {.min = 1, .max = 1000})
          .key("scale", &Options::scale, "range of a cut-out's longer side, relative to the scene's side",
               {.min = 0.0, .max = 1.0, .open_min = true})
          .rule("scale", "must be a range [low, high]",
                [](const Options& o) { return o.scale[0] <= o.scale[1]; }),
      open_stamp_scenes);
}

}  // namespace tandem::datasets
