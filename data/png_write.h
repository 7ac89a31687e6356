// PNG encoding into bytes (files/write.h writes them to a file).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"

namespace tandem::datasets {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

// u8 [H,W,3], [H,W,1] or [H,W] on the host. Throws InternalError for any other tensor, VendorError when
// libpng fails.
std::string png_of(const Tensor& image);

// u8 [H,W] on the host: indices into a palette of 1 to 256 colours. Viewers show the colours; mask readers
// get the indices. Throws as png_of(), and for an index beyond the palette.
std::string indexed_png_of(const Tensor& indices, std::span<const Colour> palette);

}  // namespace tandem::datasets
