// Rounding of f32 values to a 16-bit type, with the result in f32, for host and device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/kernels/math.h"

namespace tandem::kernels {

// Largest finite number of IEEE half precision.
inline constexpr float kGreatestF16 = 65504.0f;

// Stochastic rounding to bfloat16: rounds away from zero with a probability equal to the lost fraction of the
// last place, so that the expected result is x. `random` is uniform over 32 bits. NaN and infinities are
// kept. (Gupta et al., "Deep learning with limited numerical precision", ICML 2015.)
TANDEM_HD float round_bf16_stochastic(float x, std::uint32_t random) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return std::bit_cast<float>((bits + (random & 0xffffu)) & 0xffff0000u);
}

// The same to IEEE half precision; beyond the largest number the neighbour away from zero is infinity.
TANDEM_HD float round_f16_stochastic(float x, std::uint32_t random) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  const float size = std::fabs(x);
  float rounded;
  if (size < 0x1p-14f) {  // subnormal in f16: multiples of 2^-24
    const float multiples = size * 0x1p24f;
    const float below = std::floor(multiples);
    const float share = static_cast<float>(random >> 8) * 0x1p-24f;
    rounded = (below + (share < multiples - below ? 1.0f : 0.0f)) * 0x1p-24f;
  } else {
    rounded = std::bit_cast<float>(((bits & 0x7fffffffu) + (random & 0x1fffu)) & ~0x1fffu);
    if (rounded > kGreatestF16) rounded = std::bit_cast<float>(0x7f800000u);
  }
  return std::copysign(rounded, x);
}

}  // namespace tandem::kernels
