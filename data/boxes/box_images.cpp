#include "data/boxes/box_images.h"

#include "core/error.h"
#include "data/boxes/box_admission.h"
#include "files/input.h"

namespace tandem::datasets {

void check_images(BoxCorpus& corpus, MissingImages missing) {
  if (corpus.maker) return;
  Tally& absent = corpus.tallies.missing;
  const Index known = absent.count;
  std::erase_if(corpus.images, [&](const BoxImage& image) {
    if (files::kind_of(image.file) == files::Kind::file) return false;
    tally(absent, corpus.where, fmt::format("image {} (id {})", image.name, image.id),
          fmt::format("there is no file {}", image.file));
    return true;
  });
  const Index gone = absent.count - known;
  require(missing == MissingImages::skip || gone == 0, corpus.where,
          "lists {} images without a file, the first: {}; add the images, or set data.missing \"skip\"", gone,
          absent.first);
  require(!corpus.images.empty(), corpus.where, "none of its {} images has a file, the first: {}", gone,
          absent.first);
}

bool turned(const BoxImage& image, Index width, Index height) {
  if (width == image.width && height == image.height) return false;
  require(width == image.height && height == image.width, image.file,
          "has {}x{} pixels, its annotations (image {}) are of {}x{}; the boxes would not fit", width, height,
          image.name, image.width, image.height);
  return true;
}

}  // namespace tandem::datasets
