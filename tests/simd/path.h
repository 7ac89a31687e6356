// Vectors of core/cpu/kernels/simd.h at one level, from a library compiled for it.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tandem::test {

template <class S>
struct SimdFunctions {
  void (*narrow)(const float* x, S* y, std::int64_t count);
  void (*widen)(const S* x, float* y, std::int64_t count);
  void (*stream)(const float* x, S* y);  // 16 elements, y aligned to its vector
};

struct SimdPath {
  SimdFunctions<Half> half;
  SimdFunctions<BFloat16> bfloat16;
  // Of 16 floats.
  float (*sum)(const float* x);
  float (*largest)(const float* x);
  void (*power_of_two)(const float* exponents, float* y);
};

}  // namespace tandem::test

// What a library exports.
extern "C" __attribute__((visibility("default"))) const tandem::test::SimdPath* tandem_simd_path();
