#include "samples/composed_scenes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tandem::datasets {

namespace {

constexpr Index kTrainingScenes = 5000, kTestScenes = 500;
constexpr std::int64_t kFirstTestScene = 100'000'001;
constexpr double kMostOverlap = 0.15;
constexpr int kPlaces = 20;

BoxCorpus corpus_of(const std::string& where, const std::vector<std::string>& classes,
                    std::shared_ptr<const ComposedScenes> scenes, std::int64_t first, Index count) {
  BoxCorpus corpus{.where = where, .classes = {}, .images = {}, .tallies = {}, .maker = scenes};
  for (const std::string& name : classes) corpus.classes.add(name, corpus.classes.count() + 1);
  std::int64_t object = 1;
  for (std::int64_t id = first; id < first + count; ++id) {
    corpus.images.push_back(scenes->described(id, object));
    object += static_cast<std::int64_t>(corpus.images.back().objects.size());
  }
  return corpus;
}

double overlap_of(const Rect& a, const Rect& b) {
  const Index height = std::min(a.bottom(), b.bottom()) - std::max(a.top, b.top);
  const Index width = std::min(a.right(), b.right()) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const Index common = height * width;
  return static_cast<double>(common) / static_cast<double>(a.height * a.width + b.height * b.width - common);
}

}  // namespace

RandomStream ComposedScenes::drawing(std::int64_t id, std::uint32_t stream) const {
  return RandomStream({.seed = seed_,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(id),
                       .step = split_,
                       .micro_batch = stream});
}

BoxImage ComposedScenes::described(std::int64_t id, std::int64_t first_object) const {
  BoxImage image{.file = {},
                 .name = fmt::format("scene-{:09}", id),
                 .id = id,
                 .width = side_,
                 .height = side_,
                 .objects = {}};
  for (const Thing& thing : things(id)) {
    const Corners box{static_cast<double>(thing.to.left), static_cast<double>(thing.to.top),
                      static_cast<double>(thing.to.right()), static_cast<double>(thing.to.bottom())};
    image.objects.push_back({.box = box,
                             .label = thing.label,
                             .id = first_object + static_cast<std::int64_t>(image.objects.size()),
                             .area = box.area()});
  }
  return image;
}

bool ComposedScenes::find_place(Rect& to, std::span<const Rect> earlier, RandomStream& random) const {
  const auto at = [&](Index extent) {
    return static_cast<Index>(random.below(static_cast<std::uint32_t>(side_ - extent + 1)));
  };
  for (int place = 0; place < kPlaces; ++place) {
    to.top = at(to.height);
    to.left = at(to.width);
    if (std::ranges::none_of(earlier,
                             [&](const Rect& other) { return overlap_of(other, to) > kMostOverlap; }))
      return true;
  }
  return false;
}

BoxSplits splits_of_scenes(const std::string& where, const std::vector<std::string>& classes,
                           std::shared_ptr<const ComposedScenes> train,
                           std::shared_ptr<const ComposedScenes> test, const SetOptions& common) {
  const Index training =
      (common.train_size > 0 ? common.train_size : kTrainingScenes) + common.validation_size;
  const Index testing = common.test_size > 0 ? common.test_size : kTestScenes;
  require(training < kFirstTestScene, "data.train_size", "asks for {} scenes; at most {} are possible",
          training, kFirstTestScene - 1);
  return {.train = corpus_of(where, classes, std::move(train), 1, training),
          .test = corpus_of(where, classes, std::move(test), kFirstTestScene, testing),
          .validation = {},
          .notes = {}};
}

}  // namespace tandem::datasets
