// Many images as one, to be looked at (data/png_write.h makes a file of it).
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::datasets {

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
