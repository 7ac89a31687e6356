// A reference for conversions, written with integers on the bit patterns: no conversion instruction, no
// library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace tandem::test {

// A binary format by its field widths; values by the definition of IEEE 754, without conversion instructions.
struct Format {
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int special() const { return (1 << exponent_bits) - 1; }

  double decode(std::uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> mantissa_bits) & special();
    const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
    double value;
    if (exponent == special()) {
      value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    } else {
      value = std::ldexp((1u << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
    }
    return negative ? -value : value;
  }

  // Round to nearest even by counting quanta; `value` is not NaN.
  std::uint32_t encode(double value) const {
    const std::uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
    const double size = std::abs(value);
    const std::uint32_t infinity = static_cast<std::uint32_t>(special()) << mantissa_bits;
    if (std::isinf(size)) return sign | infinity;
    if (size == 0.0) return sign;
    int exponent = std::max(std::ilogb(size), 1 - bias());
    const double quanta = std::ldexp(size, mantissa_bits - exponent);  // exact: a power of two times a double
    double whole = std::floor(quanta);
    const double rest = quanta - whole;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) == 1.0)) whole += 1.0;
    // Adding the quanta to the exponent field carries into it when rounding reaches the next binade.
    const auto count = static_cast<std::int64_t>(whole);
    const std::int64_t bits = ((static_cast<std::int64_t>(exponent) + bias() - 1) << mantissa_bits) + count;
    return sign | static_cast<std::uint32_t>(std::min<std::int64_t>(bits, infinity));
  }
};

inline constexpr Format kHalfFormat{5, 10}, kBFloat16Format{8, 7};

template <class T>
Format format_of() {
  return std::is_same_v<T, Half> ? kHalfFormat : kBFloat16Format;
}

}  // namespace tandem::test
