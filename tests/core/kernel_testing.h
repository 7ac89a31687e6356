// Helpers for tests of numeric kernels: random tensors of any dtype, and errors relative to a result in
// double precision.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "core/backend.h"
#include "core/cpu/level.h"

namespace tandem {

// Normal numbers, the same for the same seed, rounded to `dtype`.
inline Tensor normal_tensor(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = normal(generator);
  const Tensor wide = Tensor::from(values, shape);
  if (dtype == DType::f64) return wide;
  const Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  cpu::backend().cast(wide, tensor, false);
  return tensor;
}

// ‖a − b‖ / ‖b‖, or ‖a − b‖ when b vanishes.
inline double normalised_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

// For a result that was accumulated in the arithmetic type and rounded once on store.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-14;
    case DType::f32:
      return 1e-6;
    case DType::f16:
      return 1e-3;
    default:
      return 6e-3;
  }
}

// For sums of products of f16 or bf16 that are left in f32. AMX tiles multiply f16 as two bf16 and leave out
// low·low, at most 2⁻¹⁸ of each product (core/cpu/kernels/bf16_parts.h).
inline double tolerance_of_sums(DType operands, DType result) {
  const bool parts = operands == DType::f16 && result == DType::f32 && cpu::level() == cpu::Level::amx;
  return tolerance(result) + (parts ? 0x1p-18 : 0.0);
}

}  // namespace tandem
