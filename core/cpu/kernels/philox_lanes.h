// Several blocks of Philox4x32-10, one per 64-bit vector lane, bit for bit equal to core/kernels/philox.h.
// Products read the lower halves of the lanes, so the upper halves of counters need no clearing.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/cpu/kernels/simd.h"
#include "core/kernels/philox.h"
#include "core/shape.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tandem::cpu::TANDEM_LEVEL {

#if defined(TANDEM_SIMD_AVX512)
inline constexpr int kPhiloxLanes = 8;
#elif defined(TANDEM_SIMD_AVX2)
inline constexpr int kPhiloxLanes = 4;
#else
inline constexpr int kPhiloxLanes = 2;
#endif

namespace detail {

using Counters = std::uint64_t __attribute__((vector_size(8 * kPhiloxLanes)));

// Products of the lower halves: 32 × 32 → 64 bits.
inline Counters multiply_low_halves(Counters a, Counters b) {
#if defined(TANDEM_SIMD_AVX512)
  return (Counters)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
#elif defined(TANDEM_SIMD_AVX2)
  return (Counters)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Counters)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Stores a0 b0 a1 b1 ….
inline void store_alternating(std::uint32_t* words, Counters a, Counters b) {
#if defined(TANDEM_SIMD_AVX512)
  const Counters first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  const Counters second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(TANDEM_SIMD_AVX2)
  const Counters first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Counters second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
  const Counters first = __builtin_shufflevector(a, b, 0, 2);
  const Counters second = __builtin_shufflevector(a, b, 1, 3);
#endif
  std::memcpy(words, &first, sizeof first);
  std::memcpy(words + sizeof first / sizeof *words, &second, sizeof second);
}

}  // namespace detail

// The words of kPhiloxLanes blocks from `block` on, for a resolved key; see kernels::philox.
inline void philox_lanes(const RandomKey& key, std::uint32_t block, std::uint32_t* words) {
  using detail::Counters;
  constexpr int kRounds = 10;
  constexpr Counters kZero{};
  constexpr std::uint64_t kLow = 0xffffffffu;
  const Counters factor0 = kZero + 0xD2511F53u, factor2 = kZero + 0xCD9E8D57u;
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  Counters c0, c1 = kZero + key.call, c2 = kZero + key.step;
  Counters c3 = kZero + (static_cast<std::uint32_t>(key.purpose) << 12 | (key.micro_batch & 0xfffu));
  for (int lane = 0; lane < kPhiloxLanes; ++lane) c0[lane] = block + static_cast<std::uint32_t>(lane);
  for (int round = 0; round < kRounds; ++round) {
    const Counters product0 = detail::multiply_low_halves(factor0, c0);
    const Counters product2 = detail::multiply_low_halves(factor2, c2);
    c0 = (product2 >> 32) ^ c1 ^ (kZero + key0);
    c2 = (product0 >> 32) ^ c3 ^ (kZero + key1);
    c1 = product2;
    c3 = product0;
    key0 += 0x9E3779B9u;  // golden ratio
    key1 += 0xBB67AE85u;  // √3 - 1
  }
  detail::store_alternating(words, (c0 & kLow) | c1 << 32, (c2 & kLow) | c3 << 32);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
