// Source position and normalisation of an output pixel, for host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/images.h"
#include "core/kernels/math.h"

namespace tandem::kernels {

// pixel·scale + offset, rounded once. A host without fused multiply-add computes in double, with equal
// results for 8-bit pixels: their products and sums fit in 53 bits.
TANDEM_HD float normalised(float pixel, float scale, float offset) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return std::fma(pixel, scale, offset);
#else
  return static_cast<float>(static_cast<double>(pixel) * static_cast<double>(scale) +
                            static_cast<double>(offset));
#endif
}

// Record row shown in output row y of `height`, and record column shown in output column x of `width`.
// Positions outside the record show the window's fill value.
TANDEM_HD std::int32_t shown_row(const ImageWindow& window, std::int32_t y, std::int32_t height) {
  return window.top + (window.flipped ? height - 1 - y : y);
}
TANDEM_HD std::int32_t shown_column(const ImageWindow& window, std::int32_t x, std::int32_t width) {
  return window.left + (window.mirrored ? width - 1 - x : x);
}

}  // namespace tandem::kernels
