// Vectors of sixteen floats, with loads from and stores to every floating storage type but f64.
//
// One interface over AVX-512, AVX2 with F16C and FMA, and plain C++, chosen at compile time. Conversions
// round to nearest even, keep 16-bit subnormals, and turn every NaN into a quiet one. In `bits` arguments and
// results bit i is lane i.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/convert.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TANDEM_SIMD_AVX512 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TANDEM_SIMD_AVX2 1
#include <immintrin.h>
#endif

namespace tandem::cpu::TANDEM_LEVEL {

inline constexpr int kLanes = 16;

// Adding 1.5·2^23 rounds numbers below 2^22 to integers; 127 is the exponent bias.
inline constexpr float kBias = 12582912.0f + 127.0f;

#if defined(TANDEM_SIMD_AVX512) || defined(TANDEM_SIMD_AVX2)
namespace detail {
// Adds both halves, then the halves of the result, and so on.
inline float sum(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(__m256 low, __m256 high) {
  const __m256 eight = _mm256_max_ps(low, high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
}  // namespace detail
#endif

#if defined(TANDEM_SIMD_AVX512)

struct Vec {
  __m512 v;
};

inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// Returns b if either is NaN.
inline Vec max(Vec a, Vec b) { return {_mm512_maskz_max_ps(0xffff, a.v, b.v)}; }
inline std::uint32_t positive(Vec a) { return _mm512_cmp_ps_mask(a.v, _mm512_setzero_ps(), _CMP_GT_OQ); }
inline Vec keep(std::uint32_t bits, Vec a) {
  return {_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), a.v)};
}

struct Mask {
  __mmask16 m;
};
// a > b, or a is NaN.
inline Mask exceeds(Vec a, Vec b) {
  return {static_cast<__mmask16>(_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ) |
                                 _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q))};
}
// Lanes whose byte at p equals `byte`.
inline Mask equal_bytes(const std::uint8_t* p, std::uint8_t byte) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm_cmpeq_epi8_mask(bytes, _mm_set1_epi8(static_cast<char>(byte)))};
}
// a where the mask is set, else b.
inline Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_mov_ps(b.v, mask.m, a.v)}; }
// Stores integers from 0 to 255 as bytes.
inline void store_bytes(std::uint8_t* p, Vec a) {
  const __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, a.v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(0xffff, whole));
}

namespace detail {
// Zero-masked forms with all lanes enabled compile to the plain instructions, without GCC 12's false warning
// about the undefined registers of those (GCC bug 105593).
inline constexpr __mmask16 kAll = 0xffff;
template <int which>
__m256 half(Vec a) {
  return _mm512_maskz_extractf32x8_ps(0xff, a.v, which);
}
inline __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline __m512 widen(__m256i bits, BFloat16) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, bits), 16));
}
inline __m512 widen(__m256i bits, Half) { return _mm512_maskz_cvtph_ps(kAll, bits); }
inline __m256i narrow(__m512 v, BFloat16) {
#if defined(__AVX512BF16__)
  // The instruction flushes subnormals to zero; they are rare enough for a branch.
  constexpr int kSubnormal = 0x20;
  if (_mm512_fpclass_ps_mask(v, kSubnormal) == 0) [[likely]]
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
#endif
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0x80000000u)));
  const __m512i quiet = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_maskz_cvtepi32_epi16(
      kAll, _mm512_maskz_srli_epi32(kAll, _mm512_mask_mov_epi32(rounded, nan, quiet), 16));
}
inline __m256i narrow(__m512 v, Half) {
  return _mm512_maskz_cvtps_ph(kAll, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
}  // namespace detail

inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline void stream(float* p, Vec a) { _mm512_stream_ps(p, a.v); }
inline Vec load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(detail::first(n), p)}; }
inline void store_first(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, detail::first(n), a.v); }

template <class S>
Vec load(const S* p) {
  return {detail::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), S{})};
}
template <class S>
void store(S* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), detail::narrow(a.v, S{}));
}
template <class S>
void stream(S* p, Vec a) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), detail::narrow(a.v, S{}));
}
template <class S>
Vec load_first(const S* p, int n) {
  return {detail::widen(_mm256_maskz_loadu_epi16(detail::first(n), p), S{})};
}
template <class S>
void store_first(S* p, Vec a, int n) {
  _mm256_mask_storeu_epi16(p, detail::first(n), detail::narrow(a.v, S{}));
}

#if defined(__AVX512BF16__)
#define TANDEM_SIMD_BF16_PAIRS 1

// Sixteen pairs of bf16; the first of a pair is in the lower half of its lane.
struct Pairs {
  __m512i v;
};
inline Pairs load_pairs(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
inline Pairs broadcast_pair(std::uint32_t pair) { return {_mm512_set1_epi32(static_cast<int>(pair))}; }
inline void store_pairs(std::uint32_t* p, Pairs a) { _mm512_storeu_si512(p, a.v); }
// Sixteen bf16 that only products will read. Those take subnormals as zero, and so they are stored.
inline void store_factors(BFloat16* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)));
}
// Pairs (a[i], b[i]).
inline Pairs load_pairs(const BFloat16* a, const BFloat16* b) {
  const auto wide = [](const BFloat16* p) {
    return _mm512_maskz_cvtepu16_epi32(detail::kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  };
  const __m512i first = wide(a), second = wide(b);
  return {_mm512_or_si512(first, _mm512_maskz_slli_epi32(detail::kAll, second, 16))};
}
// sum + a.first·b.first + a.second·b.second in f32. Both steps round to nearest even and flush subnormals.
inline Vec dot(Pairs a, Pairs b, Vec sum) {
  return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}
#endif

// 2^n from n + kBias, for integers n from -126 to 127: the low bits of the sum are the exponent.
inline Vec power_of_two(Vec biased) {
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(detail::kAll, _mm512_castps_si512(biased.v), 23))};
}
// Sum of the lanes in a fixed order.
inline float sum(Vec a) { return detail::sum(detail::half<0>(a), detail::half<1>(a)); }
// Maximum of the lanes; none may be NaN.
inline float largest(Vec a) { return detail::largest(detail::half<0>(a), detail::half<1>(a)); }
// Orders non-temporal stores before all later memory accesses.
inline void fence() { _mm_sfence(); }

#elif defined(TANDEM_SIMD_AVX2)

struct Vec {
  __m256 low, high;
};

inline Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline std::uint32_t positive(Vec a) {
  const __m256 z = _mm256_setzero_ps();
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.low, z, _CMP_GT_OQ))) |
         static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.high, z, _CMP_GT_OQ))) << 8;
}

namespace detail {
inline __m256 lanes(std::uint32_t bits) {
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_castsi256_ps(
      _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), each), each));
}
inline Vec widen(__m128i low, __m128i high, BFloat16) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
}
inline Vec widen(__m128i low, __m128i high, Half) { return {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)}; }
// Rounds to nearest even; undefined for NaN.
inline __m256i rounded(__m256i bits) {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
// `otherwise`, or a quiet NaN with v's sign where v is NaN.
inline __m256i quieted(__m256 v, __m256i otherwise) {
  const __m256i sign = _mm256_castps_si256(_mm256_and_ps(v, _mm256_set1_ps(-0.0f)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(otherwise, _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc00000)), nan);
}
inline __m256i narrow(Vec a, BFloat16) {
  __m256i low = rounded(_mm256_castps_si256(a.low)), high = rounded(_mm256_castps_si256(a.high));
  if (_mm256_movemask_ps(_mm256_cmp_ps(a.low, a.high, _CMP_UNORD_Q)) != 0) [[unlikely]] {
    low = quieted(a.low, low);
    high = quieted(a.high, high);
  }
  // Packing works within 128-bit halves: the middle quarters are swapped.
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
  return _mm256_permute4x64_epi64(packed, 0xd8);
}
inline __m256i narrow(Vec a, Half) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm256_set_m128i(_mm256_cvtps_ph(a.high, kNearest), _mm256_cvtps_ph(a.low, kNearest));
}
}  // namespace detail

inline Vec keep(std::uint32_t bits, Vec a) {
  return {_mm256_and_ps(detail::lanes(bits & 0xff), a.low), _mm256_and_ps(detail::lanes(bits >> 8), a.high)};
}

struct Mask {
  __m256 low, high;
};
inline Mask exceeds(Vec a, Vec b) {
  return {
      _mm256_or_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ), _mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q)),
      _mm256_or_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ), _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q))};
}
inline Mask equal_bytes(const std::uint8_t* p, std::uint8_t byte) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(byte)));
  return {_mm256_castsi256_ps(_mm256_cvtepi8_epi32(equal)),
          _mm256_castsi256_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(equal, 8)))};
}
inline Vec select(Mask mask, Vec a, Vec b) {
  return {_mm256_blendv_ps(b.low, a.low, mask.low), _mm256_blendv_ps(b.high, a.high, mask.high)};
}
inline void store_bytes(std::uint8_t* p, Vec a) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
inline void stream(float* p, Vec a) {
  _mm256_stream_ps(p, a.low);
  _mm256_stream_ps(p + 8, a.high);
}

template <class S>
Vec load(const S* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return detail::widen(_mm_loadu_si128(q), _mm_loadu_si128(q + 1), S{});
}
template <class S>
void store(S* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), detail::narrow(a, S{}));
}
template <class S>
void stream(S* p, Vec a) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), detail::narrow(a, S{}));
}

inline Vec power_of_two(Vec biased) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased.low), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased.high), 23))};
}

inline float sum(Vec a) { return detail::sum(a.low, a.high); }
inline float largest(Vec a) { return detail::largest(a.low, a.high); }
inline void fence() { _mm_sfence(); }

#else

struct Vec {
  float x[kLanes];
};

namespace detail {
template <class F>
Vec map(F f) {
  Vec r;
  for (int i = 0; i < kLanes; ++i) r.x[i] = f(i);
  return r;
}
}  // namespace detail

inline Vec broadcast(float x) {
  return detail::map([&](int) { return x; });
}
inline Vec zero() { return broadcast(0.0f); }
inline Vec operator+(Vec a, Vec b) {
  return detail::map([&](int i) { return a.x[i] + b.x[i]; });
}
inline Vec operator-(Vec a, Vec b) {
  return detail::map([&](int i) { return a.x[i] - b.x[i]; });
}
inline Vec operator*(Vec a, Vec b) {
  return detail::map([&](int i) { return a.x[i] * b.x[i]; });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return detail::map([&](int i) { return a.x[i] * b.x[i] + c.x[i]; });
}
inline Vec max(Vec a, Vec b) {
  return detail::map([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
inline std::uint32_t positive(Vec a) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= static_cast<std::uint32_t>(a.x[i] > 0.0f) << i;
  return bits;
}
inline Vec keep(std::uint32_t bits, Vec a) {
  return detail::map([&](int i) { return bits >> i & 1u ? a.x[i] : 0.0f; });
}
using Mask = Vec;  // 1 where set, else 0
inline Mask exceeds(Vec a, Vec b) {
  return detail::map([&](int i) { return a.x[i] > b.x[i] || a.x[i] != a.x[i] ? 1.0f : 0.0f; });
}
inline Mask equal_bytes(const std::uint8_t* p, std::uint8_t byte) {
  return detail::map([&](int i) { return p[i] == byte ? 1.0f : 0.0f; });
}
inline Vec select(Mask mask, Vec a, Vec b) {
  return detail::map([&](int i) { return mask.x[i] != 0.0f ? a.x[i] : b.x[i]; });
}
inline void store_bytes(std::uint8_t* p, Vec a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint8_t>(a.x[i]);
}
template <class S>
Vec load(const S* p) {
  return detail::map([&](int i) { return convert<float>(p[i]); });
}
template <class S>
void store(S* p, Vec a) {
  for (int i = 0; i < kLanes; ++i) p[i] = convert<S>(a.x[i]);
}
template <class S>
void stream(S* p, Vec a) {
  store(p, a);
}
inline Vec power_of_two(Vec biased) {
  return detail::map(
      [&](int i) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(biased.x[i]) << 23); });
}
inline float sum(Vec a) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.x[i] += a.x[i + width];
  }
  return a.x[0];
}
inline float largest(Vec a) { return *std::max_element(a.x, a.x + kLanes); }
inline void fence() {}

#endif

// Transposes 16 × 16 words: to[i·to_step + j] = from[j·from_step + i]. Steps count words.
inline void transpose_words(const void* from, std::int64_t from_step, void* to, std::int64_t to_step) {
  const auto* x = static_cast<const std::uint32_t*>(from);
  auto* y = static_cast<std::uint32_t*>(to);
#if defined(TANDEM_SIMD_AVX512)
  constexpr __mmask16 kAll = detail::kAll;
  constexpr __mmask8 kHalf = 0xff;
  __m512i r[kLanes], t[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) r[i] = _mm512_loadu_si512(x + i * from_step);
    // Words of two rows alternate, then pairs of them, then quarters.
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    t[i] = _mm512_maskz_unpacklo_epi32(kAll, r[i], r[i + 1]);
    t[i + 1] = _mm512_maskz_unpackhi_epi32(kAll, r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    r[i] = _mm512_maskz_unpacklo_epi64(kHalf, t[i], t[i + 2]);
    r[i + 1] = _mm512_maskz_unpackhi_epi64(kHalf, t[i], t[i + 2]);
    r[i + 2] = _mm512_maskz_unpacklo_epi64(kHalf, t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_maskz_unpackhi_epi64(kHalf, t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_maskz_shuffle_i32x4(kAll, r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_maskz_shuffle_i32x4(kAll, r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_maskz_shuffle_i32x4(kAll, r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_maskz_shuffle_i32x4(kAll, r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto put = [&](int row, __m512i a, __m512i b, auto which) {
      _mm512_storeu_si512(y + row * to_step, _mm512_maskz_shuffle_i32x4(kAll, a, b, decltype(which)::value));
    };
    put(i, t[i], t[i + 8], std::integral_constant<int, 0x88>());
    put(i + 8, t[i], t[i + 8], std::integral_constant<int, 0xdd>());
    put(i + 4, t[i + 4], t[i + 12], std::integral_constant<int, 0x88>());
    put(i + 12, t[i + 4], t[i + 12], std::integral_constant<int, 0xdd>());
  }
#elif defined(TANDEM_SIMD_AVX2)
  for (int row = 0; row < kLanes; row += 8) {
    for (int column = 0; column < kLanes; column += 8) {
      __m256 r[8], t[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(x + (row + i) * from_step + column));
#pragma GCC unroll 4
      for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
      }
#pragma GCC unroll 2
      for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        auto* line = reinterpret_cast<float*>(y + (column + i) * to_step + row);
        _mm256_storeu_ps(line, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(line + 4 * to_step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
      }
    }
  }
#else
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < kLanes; ++j) std::memcpy(y + i * to_step + j, x + j * from_step + i, sizeof *x);
#endif
}

#if !defined(TANDEM_SIMD_AVX512)
namespace detail {
// Copies n < 16 elements in moves of 8, 4, 2 and 1, without a function call: values that live across a call
// are spilled to memory, even in the loops of a kernel.
template <class S>
void copy_first(S* to, const S* from, int n) {
  const auto move = [&]<int width>() {
    if ((n & width) == 0) return;
    std::memcpy(to, from, width * sizeof(S));
    to += width;
    from += width;
  };
  move.template operator()<8>();
  move.template operator()<4>();
  move.template operator()<2>();
  move.template operator()<1>();
}
}  // namespace detail

// Loads the first n < 16 elements and pads with zeros.
template <class S>
Vec load_first(const S* p, int n) {
  S buffer[kLanes] = {};
  detail::copy_first(buffer, p, n);
  return load(buffer);
}
template <class S>
void store_first(S* p, Vec a, int n) {
  S buffer[kLanes];
  store(buffer, a);
  detail::copy_first(p, buffer, n);
}
#endif

// Converts `count` elements between 16-bit storage and float.
template <class S>
void widen_block(const S* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load(x + i));
  if (i < count)
    store_first(y + i, load_first(x + i, static_cast<int>(count - i)), static_cast<int>(count - i));
}
template <class S>
void narrow_block(const float* x, S* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load(x + i));
  if (i < count)
    store_first(y + i, load_first(x + i, static_cast<int>(count - i)), static_cast<int>(count - i));
}

}  // namespace tandem::cpu::TANDEM_LEVEL
