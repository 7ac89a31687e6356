// bfloat16 conversions like the device's: to nearest even, with a single NaN pattern.
#pragma once

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  std::uint16_t bits;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  if (value != value) return {0x7fff};
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
