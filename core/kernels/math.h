// Elementary functions of the compute types, for host and device.
//
// The host's float versions are branch-free, so that compilers vectorise loops over them. They are within 2
// ulp over the whole range, including subnormal results, and treat NaN and infinities like <cmath>. Doubles
// use <cmath>; a device uses its own library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#if defined(__CUDACC__)
#define TANDEM_HD __host__ __device__ __forceinline__
#else
#define TANDEM_HD inline __attribute__((always_inline))
#endif

namespace tandem::math {

#if defined(__CUDA_ARCH__)
TANDEM_HD float exp(float x) { return ::expf(x); }
TANDEM_HD float expm1(float x) { return ::expm1f(x); }
TANDEM_HD float log(float x) { return ::logf(x); }
TANDEM_HD float log1p(float x) { return ::log1pf(x); }
TANDEM_HD float tanh(float x) { return ::tanhf(x); }
TANDEM_HD float erf(float x) { return ::erff(x); }
TANDEM_HD float normal_cdf(float x) { return ::normcdff(x); }
TANDEM_HD double normal_cdf(double x) { return ::normcdf(x); }
#else

namespace detail {

// 2^k for k in [-126, 127].
TANDEM_HD float power_of_two(std::int32_t k) { return std::bit_cast<float>((k + 127) << 23); }

// x = k·ln 2 + r with |r| <= ln 2 / 2, for |x| < 200 (Cody and Waite).
struct Reduced {
  float r;
  std::int32_t k;
};
TANDEM_HD Reduced reduce_by_ln2(float x) {
  // Adding 1.5·2^23 rounds to an integer in the low bits.
  const float shifted = std::fma(x, 1.44269504f, 12582912.0f);
  const float k = shifted - 12582912.0f;
  float r = std::fma(k, -0.693359375f, x);
  r = std::fma(k, 2.12194440e-4f, r);
  return {r, std::bit_cast<std::int32_t>(shifted) - 0x4B400000};
}

// (e^r - 1 - r)/r² for |r| <= ln 2 / 2.
TANDEM_HD float exp_tail(float r) {
  float p = 1.98757e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  return std::fma(p, r, 5.0000001201e-1f);
}

// log erfc(t) for t >= 0.92, a minimax polynomial after N. Juffa.
TANDEM_HD float erfc_exponent(float t) {
  const float s = t * t;
  float r = std::fma(-1.72853470e-5f, t, 3.83197126e-4f);
  const float u = std::fma(-3.88396438e-3f, t, 2.42546219e-2f);
  r = std::fma(r, s, u);
  r = std::fma(r, t, -1.06777877e-1f);
  r = std::fma(r, t, -6.34846687e-1f);
  r = std::fma(r, t, -1.28717512e-1f);
  return std::fma(r, t, -t);
}

// erf(x) for |x| <= 0.93.
TANDEM_HD float erf_near_zero(float x) {
  const float s = x * x;
  float r = -5.96761703e-4f;
  r = std::fma(r, s, 4.99119423e-3f);
  r = std::fma(r, s, -2.67681349e-2f);
  r = std::fma(r, s, 1.12819925e-1f);
  r = std::fma(r, s, -3.76125336e-1f);
  r = std::fma(r, s, 1.28379166e-1f);
  return std::fma(r, x, x);
}

inline constexpr float kErfSplit = 0.927734375f;

}  // namespace detail

TANDEM_HD float exp(float x) {
  // Clamped to the range beyond which the result is 0 or infinite; NaN passes both comparisons.
  const float low = x < -104.0f ? -104.0f : x;
  const float clamped = low > 89.0f ? 89.0f : low;
  const auto [r, k] = detail::reduce_by_ln2(clamped);
  const float p = std::fma(detail::exp_tail(r) * r, r, r) + 1.0f;
  // Two factors, so that the first product cannot overflow and subnormal results round once.
  const std::int32_t half = k >> 1;
  return p * detail::power_of_two(half) * detail::power_of_two(k - half);
}

TANDEM_HD float expm1(float x) {
  const float low = x < -30.0f ? -30.0f : x;
  const float clamped = low > 89.0f ? 89.0f : low;
  const auto [r, k] = detail::reduce_by_ln2(clamped);
  const float p = std::fma(detail::exp_tail(r) * r, r, r);
  // 2^k·(p + 1) - 1; the last doubling is separate, so that k = 128 does not overflow early.
  const float scale = detail::power_of_two(k > 127 ? 127 : k);
  const float result = std::fma(p, scale, scale - 1.0f);
  return k > 127 ? result * 2.0f : x == 0.0f ? x : result;
}

TANDEM_HD float log(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  // x = m·2^e with m in [√½, √2).
  const auto bits = std::bit_cast<std::uint32_t>(scaled);
  const std::int32_t e = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e) << 23)) - 1.0f;
  const float exponent = static_cast<float>(e - (subnormal ? 23 : 0));
  float p = 7.0376836292e-2f;
  p = std::fma(p, m, -1.1514610310e-1f);
  p = std::fma(p, m, 1.1676998740e-1f);
  p = std::fma(p, m, -1.2420140846e-1f);
  p = std::fma(p, m, 1.4249322787e-1f);
  p = std::fma(p, m, -1.6668057665e-1f);
  p = std::fma(p, m, 2.0000714765e-1f);
  p = std::fma(p, m, -2.4999993993e-1f);
  p = std::fma(p, m, 3.3333331174e-1f);
  const float z = m * m;
  float y = p * m * z;
  y = std::fma(exponent, -2.12194440e-4f, y);
  y = std::fma(-0.5f, z, y);
  const float result = std::fma(exponent, 0.693359375f, m + y);
  const float inf = std::numeric_limits<float>::infinity();
  const float special = x == 0.0f ? -inf : x == inf ? inf : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0f && x < inf ? result : special;
}

TANDEM_HD float log1p(float x) {
  const float u = 1.0f + x;
  // log(u), corrected for the rounding error of 1 + x.
  const float corrected = log(u) + (x - (u - 1.0f)) / u;
  return u == 1.0f ? x : u > 0.0f && u < std::numeric_limits<float>::infinity() ? corrected : log(u);
}

TANDEM_HD float tanh(float x) {
  const float t = std::fabs(x);
  const float e = expm1(2.0f * (t > 20.0f ? 20.0f : t));
  return std::copysign(e / (e + 2.0f), x);
}

TANDEM_HD float erf(float x) {
  const float t = std::fabs(x);
  const float far = std::copysign(1.0f - exp(detail::erfc_exponent(t > 4.5f ? 4.5f : t)), x);
  return t > detail::kErfSplit ? far : detail::erf_near_zero(x);
}

// Standard normal distribution function, with an absolute error of 1e-7; relative error 1e-6 above -3 and
// 1e-4 above -5.
TANDEM_HD float normal_cdf(float x) {
  const float scaled = x * 0.70710678f;
  const float t = std::fabs(scaled);
  const float tail = 0.5f * exp(detail::erfc_exponent(t > 9.0f ? 9.0f : t));
  const float far = scaled < 0.0f ? tail : 1.0f - tail;
  const float near = std::fma(0.5f, detail::erf_near_zero(scaled), 0.5f);
  return t > detail::kErfSplit ? far : near;
}
TANDEM_HD double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
#endif

TANDEM_HD double exp(double x) { return ::exp(x); }
TANDEM_HD double expm1(double x) { return ::expm1(x); }
TANDEM_HD double log(double x) { return ::log(x); }
TANDEM_HD double log1p(double x) { return ::log1p(x); }
TANDEM_HD double tanh(double x) { return ::tanh(x); }
TANDEM_HD double erf(double x) { return ::erf(x); }

TANDEM_HD float sqrt(float x) { return ::sqrtf(x); }
TANDEM_HD double sqrt(double x) { return ::sqrt(x); }
TANDEM_HD float pow(float x, float y) { return ::powf(x, y); }
TANDEM_HD double pow(double x, double y) { return ::pow(x, y); }
TANDEM_HD float sin(float x) { return ::sinf(x); }
TANDEM_HD double sin(double x) { return ::sin(x); }
TANDEM_HD float cos(float x) { return ::cosf(x); }
TANDEM_HD double cos(double x) { return ::cos(x); }

// 1/(1 + e^-x), accurate in both tails.
template <class T>
TANDEM_HD T sigmoid(T x) {
  const T e = exp(x < T(0) ? x : -x);
  const T d = T(1) / (T(1) + e);
  return x < T(0) ? e * d : d;
}

// Standard normal density.
template <class T>
TANDEM_HD T normal_pdf(T x) {
  return T(0.39894228040143267794) * exp(T(-0.5) * x * x);
}

}  // namespace tandem::math
