// Arguments of ImageKernels::render_images besides pixels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor.h"

namespace tandem {

// Which part of a record an output image shows. As a tensor: u8, one row of sizeof(ImageWindow) per image.
struct alignas(16) ImageWindow {
  std::int32_t top = 0, left = 0;  // of the part, in pixels of the record; it may reach beyond the record
  float fill = 0;                  // shown there, in pixel units, by all channels
  std::uint8_t mirrored = 0;       // left to right
  std::uint8_t flipped = 0;        // top to bottom
  std::uint8_t unused[2] = {};
};
static_assert(sizeof(ImageWindow) == 16 && std::is_trivially_copyable_v<ImageWindow>);

// Output = pixel·scale + offset. f32, one element per channel of the records.
struct ImageAffine {
  Tensor scale, offset;
};

}  // namespace tandem
