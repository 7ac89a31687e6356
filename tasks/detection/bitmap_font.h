// Bitmap font of 5×7 pixels, for captions of pictures.
#pragma once

#include <string_view>

#include "core/tensor.h"
#include "data/png_write.h"

namespace tandem::tasks {

inline constexpr Index kLetterHeight = 7, kLetterPitch = 6;

// Writes `text` on a background of colour `ground`, from pixel (top, left) of an image u8 [H,W,3]; each font
// pixel is a square of `factor`², black or white, whichever has more contrast. Lower case is printed as
// capitals, unknown characters as a box; parts outside of the image are clipped.
void write_caption(const Tensor& image, Index top, Index left, Index factor, std::string_view text,
                   const datasets::Colour& ground);

}  // namespace tandem::tasks
