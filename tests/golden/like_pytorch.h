// Common parts of runs that are compared with PyTorch's.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "amp/precision.h"
#include "files/safetensors.h"

namespace tandem {

// Autocast as PyTorch has it: weight gradients are rounded to the 16-bit type; FP16 with a constant loss
// scale of 1024, which the scripts use too.
inline amp::Precision like_pytorch(DType dtype) {
  amp::Precision precision = dtype == DType::f16 ? amp::Precision::amp_fp16() : amp::Precision::amp_bf16();
  precision.round_weight_gradients = true;
  if (dtype == DType::f16) precision.scaler = optim::ScalerOptions::fixed(1024.0);
  return precision;
}

// The greatest relative distance of the first `steps` losses; 0: of all.
inline double worst(const std::vector<double>& got, const std::vector<double>& expected,
                    std::size_t steps = 0) {
  REQUIRE(got.size() == expected.size());
  double result = 0.0;
  for (std::size_t i = 0; i < (steps == 0 ? got.size() : steps); ++i)
    result = std::max(result, std::abs(got[i] - expected[i]) / expected[i]);
  return result;
}

// How far losses may be away, relatively: all, and the first `early` of them, which rounding has not led
// elsewhere yet.
struct LossTolerance {
  double all;
  double first = all;
  std::size_t early = 1;
};

// Losses of mixed precision against PyTorch's under autocast and in FP64, as tests/golden/runs.py stores
// them; what train(precision) gives has `losses`.
template <class Train>
void check_like_autocast(const Train& train, const safetensors::File& golden, const LossTolerance& bf16,
                         const LossTolerance& f16) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(name_of(dtype));
    const LossTolerance& tolerance = dtype == DType::f16 ? f16 : bf16;
    const auto run = train(like_pytorch(dtype));
    for (const char* reference : {dtype == DType::f16 ? "losses f16" : "losses bf16", "losses f64"}) {
      CAPTURE(reference);
      const auto expected = golden.read(reference).to_vector<double>();
      CHECK(worst(run.losses, expected) < tolerance.all);
      CHECK(worst(run.losses, expected, tolerance.early) < tolerance.first);
    }
    CHECK(train(like_pytorch(dtype)) == run);
  }
}

template <class Train>
void check_like_autocast(const Train& train, const safetensors::File& golden, double tolerance) {
  check_like_autocast(train, golden, LossTolerance{tolerance}, LossTolerance{tolerance});
}

}  // namespace tandem
