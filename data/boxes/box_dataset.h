// BoxDataset: a corpus of boxes as a data set.
#pragma once

#include "data/boxes/box_registry.h"
#include "data/dataset.h"
#include "data/image_file.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

class BoxDataset final : public Dataset {
 public:
  // `channels`: 3 or 1, ignored for generated images. `reading`: see data/image_file.h. `most_objects`: the
  // largest number in an image of this corpus and of the other splits.
  BoxDataset(std::string name, BoxCorpus corpus, Index channels, Index most_objects,
             const ImageReading& reading);

  Index size() const override { return static_cast<Index>(corpus_.images.size()); }
  // Decodes the image upright (EXIF), or as stored if only that has the annotated size. Throws UserError that
  // names the image when it is unreadable or neither size matches.
  Sample get(Index index) const override;
  bool decodes() const override { return true; }

  const BoxCorpus* box_corpus() const override { return &corpus_; }

 private:
  Tensor pixels_of(const BoxImage& image) const;

  BoxCorpus corpus_;
  ImageReading reading_;
};

// The splits of open_box_set as data sets, normalised with ImageNet's statistics; generated images with those
// of 500 of them. `image_size`: side to which images are resized.
Splits as_datasets(const std::string& name, BoxSplits splits, Index channels, Index image_size,
                   const ImageReading& reading);

}  // namespace tandem::datasets
