// Weights and data of the golden runs, from the integer hash of tests/golden/resnet.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/tensor.h"
#include "models/weights.h"
#include "nn/module.h"

namespace tandem {

inline std::vector<std::uint32_t> hashed(const std::string& stream, Index count) {
  std::uint32_t base = 2166136261u;  // FNV-1a
  for (char c : stream) base = (base ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) + base;  // lowbias32
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    words[i] = x ^ x >> 16;
  }
  return words;
}

inline Tensor signed_unit(const std::string& stream, const Shape& shape) {
  std::vector<float> values;
  for (std::uint32_t word : hashed(stream, shape.numel()))
    values.push_back(static_cast<float>(word >> 8) * 0x1p-23f - 1);
  return Tensor::from(values, shape);
}

// All of few values, else those that chosen() in resnet.py takes.
inline std::vector<double> sampled(const std::vector<double>& values, const std::string& name,
                                   std::size_t samples = 64) {
  if (values.size() <= samples) return values;
  std::vector<double> some;
  for (const std::uint32_t word : hashed("entries of " + name, static_cast<Index>(samples)))
    some.push_back(values[word % values.size()]);
  return some;
}

inline void set_initial(nn::Module& model) {
  for (const Parameter& parameter : model.parameters()) {
    const Shape shape = models::file_shape(parameter.value().shape(), parameter.layout());
    const Tensor initial = signed_unit(parameter.name(), shape);
    float* values = initial.data<float>();
    const auto fan_in = static_cast<double>(shape.product(1, shape.rank()));
    const auto bound = static_cast<float>(std::sqrt(6.0 / fan_in));
    const bool gamma = shape.rank() == 1 && parameter.name().ends_with("weight");
    for (Index i = 0; i < initial.numel(); ++i) {
      values[i] = shape.rank() > 1 ? bound * values[i] : 0.25f * values[i] + (gamma ? 1.0f : 0.0f);
    }
    const Tensor here = models::from_file_layout(initial, parameter.layout());
    backend_for(Device{}).copy_bytes(here, parameter.value());
    parameter.value().storage()->bump_version();
  }
}

}  // namespace tandem
