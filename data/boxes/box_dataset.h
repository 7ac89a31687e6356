// The images of a corpus with their boxes, as numbered samples.
#pragma once

#include "data/boxes/box_registry.h"
#include "data/dataset.h"
#include "data/image_file.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

class BoxDataset final : public Dataset {
 public:
  // `channels`: 3, or 1 for grey; those of made-up images are their own. `reading`: of files, see
  // data/image_file.h. `most_objects`: of an image, in this corpus and those that are used beside it.
  BoxDataset(std::string name, BoxCorpus corpus, Index channels, Index most_objects,
             const ImageReading& reading);

  Index size() const override { return static_cast<Index>(corpus_.images.size()); }
  // Pixels as the annotations' boxes are of them: upright (EXIF), or as they are stored where only that has
  // the size that the annotations say. Throws UserError naming the image when it cannot be read or neither
  // has.
  Sample get(Index index) const override;
  bool decodes() const override { return true; }

  const BoxCorpus* box_corpus() const override { return &corpus_; }

 private:
  Tensor pixels_of(const BoxImage& image) const;

  BoxCorpus corpus_;
  ImageReading reading_;
};

// open_box_set's splits as data sets, normalised with ImageNet's statistics, or where the images are made up
// with those of 500 of them. `image_size`: side that images are brought to.
Splits as_datasets(const std::string& name, BoxSplits splits, Index channels, Index image_size,
                   const ImageReading& reading);

}  // namespace tandem::datasets
