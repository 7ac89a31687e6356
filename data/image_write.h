// Images as PNG files, and many as one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"

namespace tandem::datasets {

// The bytes of a PNG file. `image`: u8 on the host, [H,W] or [H,W,1] grey, [H,W,3] red, green and blue.
// Throws InternalError for anything else, VendorError when libpng cannot.
std::string encode_png(const Tensor& image);

// The same with colours by number, which readers that ask for it get as the numbers they are: class masks.
// `indices`: u8 [H,W], each below the number of colours; there are 1 to 256 colours, red, green and blue.
std::string encode_indexed_png(const Tensor& indices, std::span<const std::array<std::uint8_t, 3>> colours);

// f32 images of any shape as u8 pixels: `low` becomes 0 and `high` 255, values between them are rounded,
// those beyond are cut off. A value that is no number is 0.
Tensor pixels_of(const Tensor& images, float low, float high);

struct GridOptions {
  Index columns = 0;  // 0: as many that the grid is about square
  Index gap = 2;      // pixels between the images
  std::uint8_t background = 255;
};

// u8 images [N,H,W,C] in rows from the top left, as one image [H',W',C].
Tensor image_grid(const Tensor& images, const GridOptions& options = {});

}  // namespace tandem::datasets
