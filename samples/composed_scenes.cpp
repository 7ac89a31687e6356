#include "samples/composed_scenes.h"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"

namespace tandem::datasets {

namespace {

constexpr Index kTrainingScenes = 5000, kTestScenes = 500;
constexpr std::int64_t kFirstTestScene = 100'000'001;

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
