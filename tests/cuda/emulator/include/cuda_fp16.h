// FP16 conversions like the device's: to nearest even, with a single NaN pattern.
#pragma once

#include <bit>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float __half2float(__half value) { return static_cast<float>(std::bit_cast<_Float16>(value.bits)); }
inline __half __float2half_rn(float value) {
  if (value != value) return {0x7fff};
  return {std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))};
}
