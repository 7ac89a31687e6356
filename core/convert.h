// Conversion of single elements between storage types, with Eigen's half and bfloat16. Defined for every
// value: floating to integral truncates towards zero and saturates, NaN gives 0; a wider integer to a
// narrower one keeps the low bits; every non-zero value, including NaN, is true.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "core/dtype.h"

namespace tandem {

inline float widen(Half value) {
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(value.bits));
}
inline float widen(BFloat16 value) {
  return Eigen::bfloat16_impl::bfloat16_to_float(Eigen::bfloat16_impl::raw_uint16_to_bfloat16(value.bits));
}
inline void narrow(float value, Half& result) { result.bits = Eigen::half_impl::float_to_half_rtne(value).x; }
inline void narrow(float value, BFloat16& result) {
  result.bits = Eigen::bfloat16_impl::float_to_bfloat16_rtne<false>(value).value;
}

// A float that rounds to 16 bits exactly as `value` does: f64 → f32 by rounding to odd, so that two
// consecutive roundings equal one (Boldo and Melquiond 2008).
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  auto bits = Eigen::numext::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // truncates towards zero
  return Eigen::numext::bit_cast<float>(bits | 1u);
}

// The same for an integer: bits beyond the 53 of a double are collected in its last bit.
inline float round_to_odd(std::int64_t value) {
  std::uint64_t size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  if (size >> 53) size = (size & ~std::uint64_t{0x7ff}) | ((size & 0x7ff) != 0 ? 0x800 : 0);
  const float rounded = round_to_odd(static_cast<double>(size));
  return value < 0 ? -rounded : rounded;
}

// Only selects, without branches or out-of-range casts, so loops over this vectorise.
template <class To, class From>
To saturated(From value) {
  constexpr To kLowest = std::numeric_limits<To>::min(), kHighest = std::numeric_limits<To>::max();
  // Powers of two (or 0), exact in any floating type; kAbove is the first value that is too large.
  constexpr From kLow = static_cast<From>(kLowest);
  constexpr From kAbove =
      From(2) * static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1));
  const bool inside = value >= kLow && value < kAbove;
  const To outside = value >= kAbove ? kHighest : value < kLow ? kLowest : To(0);
  const To truncated = static_cast<To>(inside ? value : From(0));
  return inside ? truncated : outside;
}

// Rounds to nearest even if To is a narrower floating type.
template <class To, class From>
To convert(From value) {
  constexpr bool kTo16 = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  constexpr bool kFrom16 = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kFrom16) {
    return convert<To>(widen(value));
  } else if constexpr (kTo16) {
    To result;
    if constexpr (std::is_same_v<From, double>) {
      narrow(round_to_odd(value), result);
    } else if constexpr (std::is_integral_v<From> && sizeof(From) >= 4) {
      narrow(round_to_odd(std::int64_t{value}), result);
    } else {
      narrow(static_cast<float>(value), result);
    }
    return result;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturated<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace tandem
