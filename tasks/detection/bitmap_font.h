// Letters of 5×7 pixels, for the captions of pictures.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "data/png_write.h"

namespace tandem::tasks {

inline constexpr Index kLetterHeight = 7, kLetterPitch = 6;

// Writes `text` on a ground of `ground`, from the pixel (top, left) of an image u8 [H,W,3] on, each of its
// pixels a square of `factor`²; black or white, whichever is seen better. Small letters come out as capital
// ones, what else is unknown as a box; what lies outside of the image is left out.
void write_caption(const Tensor& image, Index top, Index left, Index factor, std::string_view text,
                   const datasets::Colour& ground);

}  // namespace tandem::tasks
