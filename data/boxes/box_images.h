// Checks that the images of a corpus exist and have the annotated size.
#pragma once

#include <cstdint>

#include "core/options/schema.h"
#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

enum class MissingImages : std::uint8_t { error, skip };

// Checks that each image has a file, unless images are generated. Images without one are left out and
// counted, or cause a UserError that names the first and counts them.
void check_images(BoxCorpus& corpus, MissingImages missing);

// True if the decoded size is the annotated one turned by 90 degrees, as EXIF may do. Throws UserError that
// names the image and both sizes when they differ otherwise.
bool turned(const BoxImage& image, Index width, Index height);

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::MissingImages> {
  static constexpr std::array values{"error", "skip"};
};
