// Factors of products in AMX tiles: bf16 itself; f16 as a high and a low bf16, whose sum it is without a
// loss, since 11 significant bits are at most 8 and 3. Of an infinite value the low part is NaN.
#pragma once

#include "core/cpu/kernels/amx.h"

#if defined(TANDEM_AMX)
#include <array>

namespace tandem::cpu::TANDEM_LEVEL {

// Parts of a value stored as S.
template <class S>
inline constexpr int kParts = 1;
template <>
inline constexpr int kParts<Half> = 2;
// The products of parts that make a product: high·high, high·low, low·high. low·low is left out. It is at
// most 2⁻¹⁸ of the product, 1/64 of the distance from an f16 result to the next.
inline constexpr std::array<std::array<int, 2>, 3> kPartProducts{{{0, 0}, {0, 1}, {1, 0}}};
template <class S>
inline constexpr int kProducts = 2 * kParts<S> - 1;

inline __m256i load_words(const BFloat16* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_words(BFloat16* p, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}

template <int part>
__m256i part_of_values(Vec value) {
  const auto high = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value.v));
  if constexpr (part == 0) return high;
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh((value - Vec{detail::widen(high, BFloat16{})}).v));
}

// One part of 16 values.
template <int part>
__m256i load_part(const BFloat16* p) {
  static_assert(part == 0);
  return load_words(p);
}
template <int part>
__m256i load_part(const Half* p) {
  return part_of_values<part>(load(p));
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
