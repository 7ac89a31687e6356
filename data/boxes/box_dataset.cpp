#include "data/boxes/box_dataset.h"

#include <algorithm>

#include "core/error.h"
#include "data/boxes/image_maker.h"
#include "data/image_file.h"
#include "data/limits.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

constexpr Index kMeasuredImages = 500;

// The size that all images have, 0 where they differ.
Extents common_extents(const BoxCorpus& corpus) {
  const BoxImage& first = corpus.images.front();
  const bool alike = std::ranges::all_of(corpus.images, [&](const BoxImage& image) {
    return image.width == first.width && image.height == first.height;
  });
  return alike ? Extents{first.height, first.width} : Extents{};
}

Index most_objects_of(const BoxCorpus& corpus) {
  std::size_t most = 0;
  for (const BoxImage& image : corpus.images) most = std::max(most, image.objects.size());
  return static_cast<Index>(most);
}

}  // namespace

BoxDataset::BoxDataset(std::string name, BoxCorpus corpus, Index channels, Index most_objects,
                       std::size_t memory)
    : corpus_(std::move(corpus)), memory_(memory) {
  require(!corpus_.images.empty(), corpus_.where, "has no image");
  require(size() <= kMaxSamples, corpus_.where, "{} images, at most {} can be numbered", size(), kMaxSamples);
  info_.name = std::move(name);
  if (corpus_.maker) channels = corpus_.maker->channels();
  // Files are brought to a size, made-up images have theirs.
  const Extents extents = corpus_.maker ? common_extents(corpus_) : Extents{};
  info_.sample_shape = {extents.height, extents.width, channels};
  info_.classes = corpus_.classes.count() + 1;
  info_.class_names = corpus_.classes.names;
  info_.most_objects = most_objects;
  // Of ImageNet, the custom for photographs.
  info_.statistics = channels == 3 ? ChannelStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}
                                   : ChannelStatistics{{0.449F}, {0.226F}};
}

Sample BoxDataset::get(Index index) const {
  const BoxImage& image = corpus_.images.at(static_cast<std::size_t>(index));
  Sample sample{.image = corpus_.maker
                             ? corpus_.maker->image(image.id)
                             : read_image(image.file, static_cast<int>(info_.sample_shape[2]), memory_),
                .objects = image.objects,
                .id = image.id};
  require(
      !turned(image, sample.image.size(1), sample.image.size(0)), image.file,
      "lies on its side: it has {}x{} pixels, its annotations (image {}) are of {}x{}; turn the pixels as "
      "its EXIF tag says",
      sample.image.size(1), sample.image.size(0), image.name, image.width, image.height);
  return sample;
}

Splits as_datasets(const std::string& name, BoxSplits splits, Index channels, Index image_size,
                   std::size_t memory) {
  Index most = std::max(most_objects_of(splits.train), most_objects_of(splits.test));
  if (splits.validation) most = std::max(most, most_objects_of(*splits.validation));
  const bool made_up = splits.train.maker != nullptr;
  const auto opened = [&](BoxCorpus& corpus) {
    return std::make_shared<BoxDataset>(name, std::move(corpus), channels, most, memory);
  };
  const auto train = opened(splits.train), test = opened(splits.test);
  const auto validation = splits.validation ? opened(*splits.validation) : nullptr;
  if (made_up) {
    train->set_statistics(statistics_of(*train, kMeasuredImages));
    for (const auto& other : {test, validation})
      if (other) other->set_statistics(train->info().statistics);
  }
  return {.train = train,
          .test = test,
          .validation = validation,
          .image_size = made_up ? 0 : image_size,
          .notes = std::move(splits.notes)};
}

}  // namespace tandem::datasets
