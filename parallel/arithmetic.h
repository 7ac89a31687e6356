// Elementwise arithmetic of a reduction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/convert.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// 16-bit types are widened to f32, and the result is rounded once. NaN on either side gives NaN, so that the
// order of ranks does not matter; sums of i64 wrap around.
template <class T>
T combined(T a, T b, Reduction reduction) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return convert<T>(combined(widen(a), widen(b), reduction));
  } else if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::min) return std::min(a, b);
    if (reduction == Reduction::max) return std::max(a, b);
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    if (reduction == Reduction::sum || std::isnan(a) || std::isnan(b)) return a + b;
    // -0 is smaller than +0.
    const bool a_is_smaller = a < b || (a == b && std::signbit(a));
    return a_is_smaller == (reduction == Reduction::min) ? a : b;
  }
}

// inout[i] = in[i] ∘ inout[i]
template <class T>
void combine(const T* in, T* inout, std::size_t count, Reduction reduction) {
  for (std::size_t i = 0; i < count; ++i) inout[i] = combined(in[i], inout[i], reduction);
}

// sum[i] = a[i] + b[i] in T, which is float or double; sum may be a or b. The bits are IEEE's for any vector
// width.
template <class T>
void add(const T* a, const T* b, T* sum, std::size_t count) {
  static_assert(std::is_floating_point_v<T>);
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

}  // namespace tandem::parallel
