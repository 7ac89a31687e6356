// The images that boxes are of: whether they are there, and of the size that the annotations say.
#pragma once

#include <cstdint>

#include "core/options/schema.h"
#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

enum class MissingImages : std::uint8_t { error, skip };

// Looks for the file of each image, unless they are made up. Those without one are an error, a UserError that
// names the first and counts them, or are left out and counted.
void check_images(BoxCorpus& corpus, MissingImages missing);

// Whether the pixels that were decoded lie on their side of what the annotations say, as images do that EXIF
// turns by 90 degrees. Throws UserError naming the image and both sizes when they are of another size
// altogether: its boxes would be of other pixels.
bool turned(const BoxImage& image, Index width, Index height);

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::MissingImages> {
  static constexpr std::array values{"error", "skip"};
};
