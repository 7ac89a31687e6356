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

constexpr SimdPath make_path() {
  namespace level = cpu::TANDEM_LEVEL;
  return {.half = functions<Half>(),
          .bfloat16 = functions<BFloat16>(),
          .sum = [](const float* x) { return level::sum(level::load(x)); },
          .largest = [](const float* x) { return level::largest(level::load(x)); },
          .power_of_two =
              [](const float* exponents, float* y) {
                level::store(y, level::power_of_two(level::load(exponents) + level::broadcast(level::kBias)));
              }};
}

constexpr SimdPath kPath = make_path();

}  // namespace

}  // namespace tandem::test

const tandem::test::SimdPath* tandem_simd_path() { return &tandem::test::kPath; }
