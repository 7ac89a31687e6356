#include "tests/simd/path.h"

#include "core/cpu/kernels/simd.h"

namespace tandem::test {

namespace {

template <class S>
constexpr SimdFunctions<S> functions() {
  namespace level = cpu::TANDEM_LEVEL;
  return {
      .narrow = level::narrow_block<S>, .widen = level::widen_block<S>, .stream = [](const float* x, S* y) {
        level::stream(y, level::load(x));
        level::fence();
      }};
}

constexpr SimdPath kPath{functions<Half>(), functions<BFloat16>()};

}  // namespace

}  // namespace tandem::test

extern "C" __attribute__((visibility("default"))) const tandem::test::SimdPath* tandem_simd_path() {
  return &tandem::test::kPath;
}
