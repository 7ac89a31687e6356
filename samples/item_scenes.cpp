#include "samples/item_scenes.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/transforms/render.h"

namespace tandem::datasets {

namespace {

constexpr std::uint32_t kItemSceneStream = 4;  // of the seed's synthetic data; scenes.cpp uses 2 and 3
constexpr std::uint8_t kItemEdge = 20;         // pictures are cropped to pixels brighter than this
constexpr float kOpaque = 40;                  // darker pixels let the background through
constexpr float kLeastScale = 0.7F, kMostScale = 2;
constexpr float kNoise = 6;

// Bounding box of the pixels brighter than kItemEdge; empty if there are none.
Rect shown_part(const Tensor& picture) {
  const Index height = picture.size(0), width = picture.size(1);
  const std::uint8_t* const pixels = picture.data<std::uint8_t>();
  Index top = height, bottom = 0, left = width, right = 0;
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      if (pixels[y * width + x] <= kItemEdge) continue;
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
      left = std::min(left, x);
      right = std::max(right, x + 1);
    }
  }
  return bottom > top ? Rect{top, left, bottom - top, right - left} : Rect{};
}

Splits items_of(const ItemScenesOptions& own, const SetOptions& common) {
  if (own.items == "digits") return open_digits({}, common);
  const FashionMnist sets = read_fashion_mnist(common.place());
  return {.train = sets.train, .test = sets.test, .validation = {}};
}

BoxSplits open_item_scenes(const ItemScenesOptions& own, const SetOptions& common) {
  const Splits items = items_of(own, common);
  return splits_of_scenes("scenes", items.train->info().class_names,
                          std::make_shared<ItemScenes>(items.train, own, common.seed(), 0),
                          std::make_shared<ItemScenes>(items.test, own, common.seed(), 1), common);
}

}  // namespace

struct ItemScenes::Paste {
  Sample item;
  Rect part, to;  // crop of the item; rectangle in the scene
};

ItemScenes::ItemScenes(DatasetPtr items, const ItemScenesOptions& options, std::uint64_t seed,
                       std::uint32_t split)
    : ComposedScenes(options.scene_size, seed, split, kItemSceneStream),
      items_(std::move(items)),
      options_(options) {
  const DatasetInfo& shown = items_->info();
  require(shown.dtype == DType::u8 && shown.sample_shape.rank() == 3 && shown.sample_shape[2] == 1, "scenes",
          "need 8-bit grey pictures, but {} has {} {}", shown.name, name_of(shown.dtype),
          to_string(shown.sample_shape));
  const auto largest = static_cast<Index>(
      std::ceil(kMostScale * static_cast<float>(std::max(shown.sample_shape[0], shown.sample_shape[1]))));
  require(options.scene_size >= largest, "data.scene_size",
          "is {} pixels, but pictures of {} measure up to {} pixels", options.scene_size, shown.name,
          largest);
}

std::vector<ItemScenes::Paste> ItemScenes::pastes(std::int64_t id) const {
  RandomStream random = drawing_things(id);
  std::vector<Paste> pastes;
  std::vector<Rect> taken;
  const std::uint32_t count = 1 + random.below(static_cast<std::uint32_t>(options_.most_items));
  for (std::uint32_t i = 0; i < count; ++i) {
    Paste paste{
        .item = items_->get(random.below(static_cast<std::uint32_t>(items_->size()))), .part = {}, .to = {}};
    const float scale = random.uniform(kLeastScale, kMostScale);
    paste.part = shown_part(paste.item.image);
    const auto scaled = [&](Index extent) {
      return std::max<Index>(1, std::lround(static_cast<float>(extent) * scale));
    };
    paste.to = {0, 0, scaled(paste.part.height), scaled(paste.part.width)};
    if (paste.part.height == 0 || !find_place(paste.to, taken, random)) continue;
    taken.push_back(paste.to);
    pastes.push_back(std::move(paste));
  }
  return pastes;
}

std::vector<ComposedScenes::Thing> ItemScenes::things(std::int64_t id) const {
  std::vector<Thing> things;
  for (const Paste& paste : pastes(id)) things.push_back({.to = paste.to, .label = paste.item.label + 1});
  return things;
}

Tensor ItemScenes::image(std::int64_t id) const {
  const Index side = this->side();
  const Tensor scene = Tensor::empty({side, side, 1}, {.dtype = DType::u8, .kind = MemoryKind::data});
  RandomStream random = drawing_ground(id);
  const float level = random.uniform(0.0F, 90.0F), down = random.uniform(-20.0F, 20.0F),
              across = random.uniform(-20.0F, 20.0F);
  thread_local std::vector<float> pixels, item;
  pixels.resize(static_cast<std::size_t>(side * side));
  const auto extent = static_cast<float>(side);
  for (Index y = 0; y < side; ++y) {
    for (Index x = 0; x < side; ++x) {
      const float shade =
          down * (static_cast<float>(y) / extent - 0.5F) + across * (static_cast<float>(x) / extent - 0.5F);
      pixels[static_cast<std::size_t>(y * side + x)] =
          level + shade + kNoise * static_cast<float>(random.normal());
    }
  }
  for (const Paste& paste : pastes(id)) {
    const Rect& to = paste.to;
    resize_part(paste.item.image, paste.part, to.height, to.width, item);
    for (Index y = 0; y < to.height; ++y) {
      for (Index x = 0; x < to.width; ++x) {
        const float value = item[static_cast<std::size_t>(y * to.width + x)];
        const float cover = std::min(1.0F, value / kOpaque);
        float& ground = pixels[static_cast<std::size_t>((to.top + y) * side + to.left + x)];
        ground += cover * (value - ground);
      }
    }
  }
  std::ranges::transform(pixels, scene.data<std::uint8_t>(), [](float value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  });
  return scene;
}

BoxSetRegistry::Entry item_scenes_entry() {
  return BoxSetRegistry::entry<ItemScenesOptions>(
      "scenes", "grey pictures on a noisy background, composed on demand",
      options::Describe<ItemScenesOptions>()
          .key("items", &ItemScenesOptions::items,
               "pictures to paste: fashion_mnist (Debian's package dataset-fashion-mnist) or the digits that "
               "come with Tandem",
               {.choices = {"fashion_mnist", "digits"}})
          .key("scene_size", &ItemScenesOptions::scene_size, "side of a scene in pixels",
               {.min = 16, .max = 8192})
          .key("most_items", &ItemScenesOptions::most_items, "maximum number of pictures in a scene",
               {.min = 1, .max = 1000}),
      open_item_scenes);
}

}  // namespace tandem::datasets
