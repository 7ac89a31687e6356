// Reduction kernels: sums, extrema and cumulative sums.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem {

enum class Reduction : std::uint8_t {
  sum,
  mean,
  prod,
  max,
  min,
  argmax,
  argmin,
  sum_of_squares,
  sum_of_abs,
  max_abs,
  logsumexp
};

struct ReduceKernels {
  virtual ~ReduceKernels() = default;

  // Reduces the axes whose bit is set in `axes`; y has the remaining elements in order (axes of extent 1 are
  // allowed). argmax and argmin write i64, need exactly one axis, and take the first of equals; NaN counts as
  // largest for both.
  virtual void reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y,
                      bool accumulate = false) = 0;
  virtual void cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) = 0;
};

// Calls visit(TypeTag<T>{}) with the compute type for reading x and writing y: f64, f32 or i64.
template <class Visitor>
void with_compute_type(DType x, DType y, Visitor&& visit) {
  if (x == DType::f64 || y == DType::f64) {
    visit(TypeTag<double>{});
  } else if (is_integral(x) && is_integral(y)) {
    visit(TypeTag<std::int64_t>{});
  } else if (x == DType::i64 || x == DType::i32) {
    visit(TypeTag<double>{});
  } else {
    visit(TypeTag<float>{});
  }
}

}  // namespace tandem
