// Tolerances of all tests, one row per dtype. A test that needs a wider one multiplies it and gives the
// reason on its line.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/dtype.h"

namespace tandem::test {

struct Tolerance {
  double relative, absolute;
};

inline constexpr Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-7, 1e-7};
    case DType::f32:
      return {1.3e-6, 1e-5};
    case DType::f16:
      return {1e-3, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    default:
      return {0.0, 0.0};  // integers are exact
  }
}

// Elementwise: |a - b| <= absolute + relative·|b|; NaN matches NaN only, an infinity itself only.
inline bool close(double a, double b, Tolerance tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b);
}

// ‖a - b‖ / ‖b‖, for sums of many terms; NaN when either holds one.
inline double normalised_error(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  if (difference == 0.0) return 0.0;
  return std::sqrt(difference / size);
}

}  // namespace tandem::test
