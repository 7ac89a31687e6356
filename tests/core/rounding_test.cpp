// Rounding to the grid of a 16-bit type in f32: stochastic, and by an update without master weights.
#include "core/kernels/rounding.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/backend.h"
#include "core/convert.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"
#include "core/random.h"

using namespace tandem;

namespace {

template <class S>
float rounded(float x, std::uint32_t random) {
  return std::is_same_v<S, Half> ? kernels::round_f16_stochastic(x, random)
                                 : kernels::round_bf16_stochastic(x, random);
}

template <class S>
bool on_grid(float x) {
  return widen(convert<S>(x)) == x || std::isnan(x);
}

}  // namespace

TEMPLATE_TEST_CASE("stochastic rounding takes one of the two neighbours, in proportion", "[rounding]", Half,
                   BFloat16) {
  const float subnormal = std::is_same_v<TestType, Half> ? 3.3e-7f : 1e-39f;
  for (const float x :
       {1.0f, 1.0013f, -3.14159f, 1e-3f, 123.456f, subnormal, -subnormal, 6.2e-5f, 5.01e-5f}) {
    CAPTURE(x);
    constexpr int kDraws = 20000;
    double sum = 0.0;
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (std::uint32_t draw = 0; draw < kDraws / 4; ++draw) {
      for (const std::uint32_t word : philox({.seed = 3}, draw)) {
        const float y = rounded<TestType>(x, word);
        REQUIRE(on_grid<TestType>(y));
        low = std::min(low, y);
        high = std::max(high, y);
        sum += static_cast<double>(y);
      }
    }
    CHECK(low <= x);
    CHECK(high >= x);
    const double step = static_cast<double>(high) - static_cast<double>(low);
    if (on_grid<TestType>(x)) {
      CHECK(step == 0.0);
      continue;
    }
    // Neighbours: nothing of the grid lies between, and the mean is x within five standard errors.
    CHECK(on_grid<TestType>(low));
    CHECK(
        !on_grid<TestType>(static_cast<float>(0.5 * (static_cast<double>(low) + static_cast<double>(high)))));
    CHECK(std::abs(sum / kDraws - static_cast<double>(x)) < 5.0 * 0.5 * step / std::sqrt(kDraws));
  }
}

TEST_CASE("stochastic rounding: what is on the grid, infinite or NaN stays; beyond 65504 lies infinity",
          "[rounding]") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::uint32_t word : {0u, 1u, 0x1fffu, 0xffffu, 0x80000000u, 0xffffffffu}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float half = widen(Half{static_cast<std::uint16_t>(bits)});
      const float brain = widen(BFloat16{static_cast<std::uint16_t>(bits)});
      if (!std::isnan(half) && kernels::round_f16_stochastic(half, word) != half) FAIL(half);
      if (!std::isnan(brain) && kernels::round_bf16_stochastic(brain, word) != brain) FAIL(brain);
    }
    CHECK(std::isnan(kernels::round_f16_stochastic(std::nanf(""), word)));
    CHECK(std::isnan(kernels::round_bf16_stochastic(std::nanf(""), word)));
  }
  CHECK(kernels::round_f16_stochastic(65519.0f, 0) == 65504.0f);
  CHECK(kernels::round_f16_stochastic(65519.0f, 0xffffffffu) == kInf);
  CHECK(std::signbit(kernels::round_f16_stochastic(-1e-30f, 0xffffffffu)));
}

TEST_CASE("an update without masters rounds what it stores, the same on any number of ranges", "[rounding]") {
  constexpr Index kCount = 10007;
  Backend& backend = backend_for({});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool stochastic : {false, true}) {
      CAPTURE(name_of(dtype), stochastic);
      const auto run = [&](const StorageRounding& rounding, Index parts) {
        std::vector<float> weights, gradients;
        for (Index i = 0; i < kCount; ++i) {
          weights.push_back(std::sin(0.37f * static_cast<float>(i)));
          gradients.push_back(0.01f * std::cos(1.9f * static_cast<float>(i)));
        }
        UpdateBuffers buffers{.master = Tensor::from(weights, {kCount}),
                              .gradient = Tensor::from(gradients, {kCount})};
        buffers.moment1 = Tensor::zeros({kCount});
        buffers.counts = Tensor::zeros({parts}, {.dtype = DType::i64});
        buffers.rounding = rounding;
        StepState state;
        state.learning_rate = 0.1;
        state.attempted = 5;
        const Tensor device = Tensor::zeros({sizeof(StepState)}, {.dtype = DType::u8});
        std::memcpy(device.raw(), &state, sizeof(state));
        std::vector<UpdateRange> ranges;
        const Index each = 4096 * ((kCount / parts + 4095) / 4096);
        for (Index p = 0; p < parts; ++p)
          ranges.push_back({.first = p * each, .count = std::min(each, kCount - p * each), .slot = p});
        backend.update().update(update_rules::Sgd{.momentum = 0.9}, ranges, buffers, device);
        return std::pair(buffers.master.to_vector<float>(), buffers.moment1.to_vector<float>());
      };
      const StorageRounding rounding{.weights = dtype, .moments = dtype, .stochastic = stochastic, .seed = 9};
      const auto exact = run({}, 1), stored = run(rounding, 1);
      CHECK(run(rounding, 2) == stored);
      const auto nearest = [&](float x) {
        return dtype == DType::f16 ? widen(convert<Half>(x)) : widen(convert<BFloat16>(x));
      };
      Index up = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const float weight = stored.first[i];
        if (nearest(weight) != weight) FAIL("weight " << i);
        if (stored.second[i] != nearest(exact.second[i])) FAIL("moment " << i);
        if (!stochastic && weight != nearest(exact.first[i])) FAIL("weight " << i);
        up += weight > exact.first[i];
      }
      CHECK(up > kCount * 2 / 5);
      CHECK(up < kCount * 3 / 5);
    }
  }
}
