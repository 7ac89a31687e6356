// The AVX2 vectors, in builds that would take AVX-512: compiled into a namespace of their own.
#include "tests/core/simd_checks.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "core/convert.h"
#undef __AVX512F__
#define cpu cpu_avx2
#include "core/cpu/simd.h"
#undef cpu

namespace tandem::test {

namespace {

struct Avx2Path {
  template <class S>
  static void narrow(const float* x, S* y, std::int64_t count) {
    cpu_avx2::narrow_block(x, y, count);
  }
  template <class S>
  static void widen(const S* x, float* y, std::int64_t count) {
    cpu_avx2::widen_block(x, y, count);
  }
  template <class S>
  static void stream(const float* x, S* y) {
    cpu_avx2::stream(y, cpu_avx2::load(x));
    cpu_avx2::fence();
  }
};

}  // namespace

TEST_CASE("AVX2 vectors convert every 16-bit pattern and round to nearest even", "[simd]") {
  check_simd<Avx2Path>();
}

}  // namespace tandem::test
#endif
