// Units that multiply matrices of 16-bit operands, and how much of one a size uses.
#pragma once

#include "core/shape.h"

namespace tandem::models {

// Multiples of the sizes of y[m,n] = sum over k that a unit multiplies at once. A convolution is a product
// for each position of its filter, whose k are the channels.
struct UnitSize {
  Index m = 1, n = 1, k = 1;
};
inline constexpr UnitSize kTensorCore{8, 8, 8};  // before cuBLAS 11 a condition
inline constexpr UnitSize kAmx{16, 16, 32};      // tiles of BF16

inline Index filled_up(Index size, Index multiple) { return (size + multiple - 1) / multiple * multiple; }

// Share of the filled-up size that is used: 1 where nothing is idle.
inline double filled(Index size, Index multiple) {
  return static_cast<double>(size) / static_cast<double>(filled_up(size, multiple));
}

}  // namespace tandem::models
