// Orientation of an image, which EXIF stores beside its pixels (CIPA DC-008, tag 0x0112).
//
//   1  as stored           5  transposed
//   2  mirrored            6  to be turned by 90 degrees, clockwise
//   3  turned by 180       7  transposed over the other diagonal
//   4  upside down         8  to be turned by 90 degrees, counterclockwise
#pragma once

#include <cstddef>
#include <span>

#include "data/image_file.h"

namespace tandem::datasets {

// Orientation in the first directory of an EXIF block, which is a TIFF file without pixels. Returns 1 if it
// has none or is damaged; an image is never refused for it.
int exif_orientation(std::span<const std::byte> block);

// Upright pixels [H,W,C]: `stored` itself if the orientation is 1 or `source` ignores it. Throws UserError
// when both images exceed the memory limit of `source`.
Tensor seen(const ImageSource& source, const Tensor& stored, int orientation);

}  // namespace tandem::datasets
