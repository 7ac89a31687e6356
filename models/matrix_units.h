// Matrix units for 16-bit operands, and their utilisation by a size.
#pragma once

#include "core/shape.h"

namespace tandem::models {

// Granularity of a unit for y[m,n] = sum over k. A convolution is a product per filter position, with
// channels as k.
struct UnitSize {
  Index m = 1, n = 1, k = 1;
};
inline constexpr UnitSize kTensorCore{8, 8, 8};  // required before cuBLAS 11
inline constexpr UnitSize kAmx{16, 16, 32};      // tiles of BF16

inline Index filled_up(Index size, Index multiple) { return (size + multiple - 1) / multiple * multiple; }

// Used share of the padded size; 1: no padding.
inline double filled(Index size, Index multiple) {
  return static_cast<double>(size) / static_cast<double>(filled_up(size, multiple));
}

}  // namespace tandem::models
