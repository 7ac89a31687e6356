// Vectors as this build uses them.
#include "core/cpu/simd.h"

#include "tests/core/simd_checks.h"

namespace tandem::test {

namespace {

struct NativePath {
  template <class S>
  static void narrow(const float* x, S* y, std::int64_t count) {
    cpu::narrow_block(x, y, count);
  }
  template <class S>
  static void widen(const S* x, float* y, std::int64_t count) {
    cpu::widen_block(x, y, count);
  }
  template <class S>
  static void stream(const float* x, S* y) {
    cpu::stream(y, cpu::load(x));
    cpu::fence();
  }
};

}  // namespace

TEST_CASE("the build's vectors convert every 16-bit pattern and round to nearest even", "[simd]") {
  check_simd<NativePath>();
}

}  // namespace tandem::test
