// PNG files, as bytes (files/write.h puts them on the disk).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"

namespace tandem::datasets {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

// u8 [H,W,3], or grey [H,W,1] or [H,W], on the host. Throws InternalError for any other tensor, VendorError
// when libpng fails.
std::string png_of(const Tensor& image);

// u8 [H,W] of indices into a palette of 1 to 256 colours, on the host: programs that look at images show the
// colours, those that read masks get the indices. What lies beyond the palette is refused as above.
std::string indexed_png_of(const Tensor& indices, std::span<const Colour> palette);

}  // namespace tandem::datasets
