// The vectors in plain C++, which builds for other processors use: compiled into a namespace of their own.
#include "core/convert.h"
#include "tests/core/simd_checks.h"

#undef __AVX512F__
#undef __AVX2__
#define cpu cpu_plain
#include "core/cpu/simd.h"
#undef cpu

namespace tandem::test {

namespace {

struct PlainPath {
  template <class S>
  static void narrow(const float* x, S* y, std::int64_t count) {
    cpu_plain::narrow_block(x, y, count);
  }
  template <class S>
  static void widen(const S* x, float* y, std::int64_t count) {
    cpu_plain::widen_block(x, y, count);
  }
  template <class S>
  static void stream(const float* x, S* y) {
    cpu_plain::stream(y, cpu_plain::load(x));
    cpu_plain::fence();
  }
};

}  // namespace

TEST_CASE("plain vectors convert every 16-bit pattern and round to nearest even", "[simd]") {
  check_simd<PlainPath>();
}

}  // namespace tandem::test
