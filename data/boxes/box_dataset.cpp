#include "data/boxes/box_dataset.h"

#include <algorithm>

#include "core/error.h"
#include "data/boxes/image_maker.h"
#include "data/limits.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

constexpr Index kMeasuredImages = 500;

// The size of all images; 0 where it differs.
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
                       const ImageReading& reading)
    : corpus_(std::move(corpus)), reading_(reading) {
  require(!corpus_.images.empty(), corpus_.where, "has no image");
  require(size() <= kMaxSamples, corpus_.where, "{} images, at most {} can be numbered", size(), kMaxSamples);
  info_.name = std::move(name);
  if (corpus_.maker) channels = corpus_.maker->channels();
  // Files are resized; generated images keep their size.
  const Extents extents = corpus_.maker ? common_extents(corpus_) : Extents{};
  info_.sample_shape = {extents.height, extents.width, channels};
  info_.classes = corpus_.classes.count() + 1;
  info_.class_names = corpus_.classes.names;
  info_.most_objects = most_objects;
  info_.as_stored = !reading.upright;
  // The statistics of ImageNet, customary for photographs.
  info_.statistics = channels == 3 ? ChannelStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}
                                   : ChannelStatistics{{0.449F}, {0.226F}};
}

Tensor BoxDataset::pixels_of(const BoxImage& image) const {
  const auto on_its_side = [&](const Tensor& pixels) {
    return turned(image, pixels.size(1), pixels.size(0));
  };
  const auto channels = static_cast<int>(info_.sample_shape[2]);
  const Tensor pixels = read_image(image.file, channels, reading_);
  if (!on_its_side(pixels)) return pixels;
  const Tensor stored = reading_.upright ? read_image(image.file, channels, as_stored(reading_)) : pixels;
  require(!on_its_side(stored), image.file,
          "lies on its side: it has {}x{} pixels, its annotations (image {}) are of {}x{}; turn the pixels",
          pixels.size(1), pixels.size(0), image.name, image.width, image.height);
  return stored;
}

Sample BoxDataset::get(Index index) const {
  const BoxImage& image = corpus_.images.at(static_cast<std::size_t>(index));
  return {.image = corpus_.maker ? corpus_.maker->image(image.id) : pixels_of(image),
          .objects = image.objects,
          .id = image.id};
}

Splits as_datasets(const std::string& name, BoxSplits splits, Index channels, Index image_size,
                   const ImageReading& reading) {
  Index most = std::max(most_objects_of(splits.train), most_objects_of(splits.test));
  if (splits.validation) most = std::max(most, most_objects_of(*splits.validation));
  const bool made_up = splits.train.maker != nullptr;
  const auto opened = [&](BoxCorpus& corpus) {
    return std::make_shared<BoxDataset>(name, std::move(corpus), channels, most, reading);
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
