// Tensors for tests: random ones, and their values as doubles.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/convert.h"
#include "core/random.h"
#include "core/tensor.h"

namespace tandem::test {

inline constexpr DType kFloatingTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
inline constexpr DType kIntegralTypes[] = {DType::i64, DType::i32, DType::u8, DType::boolean};

// Where tests put their tensors: the CPU, or a GPU where the environment variable TANDEM_TEST_DEVICE is
// "cuda".
inline Device test_device() {
  static const Device device = [] {
    const char* name = std::getenv("TANDEM_TEST_DEVICE");
    return Device{name && std::string_view(name) == "cuda" ? DeviceType::cuda : DeviceType::cpu};
  }();
  return device;
}

// Values converted to `dtype` as one element at a time would be.
inline Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    std::vector<T> converted;
    for (const double value : values) converted.push_back(convert<T>(value));
    return Tensor::from(converted, shape, test_device());
  });
}

inline Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape, test_device());
}

inline std::vector<double> random_values(Index count, std::uint64_t seed, double low = -1.0,
                                         double high = 1.0) {
  RandomStream stream({.seed = seed});
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = low + (high - low) * static_cast<double>(stream.uniform());
  return values;
}

inline Tensor random_tensor(const Shape& shape, DType dtype = DType::f32, std::uint64_t seed = 1,
                            double low = -1.0, double high = 1.0) {
  return tensor_of(random_values(shape.numel(), seed, low, high), shape, dtype);
}

}  // namespace tandem::test
