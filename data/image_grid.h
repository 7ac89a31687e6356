// A grid of images as one image (data/png_write.h writes it to a file).
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::datasets {

// f32 values of any shape as u8 pixels: `low` maps to 0, `high` to 255; values are rounded and clamped. NaN
// becomes 0.
Tensor pixels_of(const Tensor& images, float low, float high);

struct GridOptions {
  Index columns = 0;  // 0: about square
  Index gap = 2;      // pixels between images
  std::uint8_t background = 255;
};

// Arranges u8 images [N,H,W,C] in rows from the top left; returns one image [H',W',C].
Tensor image_grid(const Tensor& images, const GridOptions& options = {});

}  // namespace tandem::datasets
