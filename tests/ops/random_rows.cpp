// Rows of autograd/ops/random.h, and the statistics of what the random kernels draw.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/ops/random.h"
#include "core/backend.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr std::uint64_t kSeed = 17;

Tensor dropped(const Tensor& x, double p) {
  const RandomScope scope(kSeed, /*step=*/3, /*micro_batch=*/1);
  return dropout(x, p);
}

// The mask from its key: element i is kept where word i % 4 of block i / 4 is at least p·2³².
Oracle dropout_oracle(double p) {
  return [p](const Arrays& x) {
    const RandomKey key{
        .seed = kSeed, .purpose = RandomPurpose::dropout, .call = 0, .step = 3, .micro_batch = 1};
    Array y = x[0];
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const std::uint32_t word = philox(key, static_cast<std::uint32_t>(i / 4))[i % 4];
      y.values[i] = word >= p * 0x1p32 ? y.values[i] / (1 - p) : 0.0;
    }
    return y;
  };
}

}  // namespace

Rows tandem::test::random_rows() {
  const std::vector<Shapes> cases = {{{5, 3}}, {{}}, {{1}}, {{0, 2}}, {{7}}, {{40013}}};
  return {{.op = "dropout",
           .variant = "0.3",
           .run = RUN(dropped(x[0], 0.3)),
           .oracle = dropout_oracle(0.3),
           .cases = cases,
           .refusals = {{"[dropout] the probability must lie in [0,1), got 1",
                         CALL(dropout(Tensor::zeros({1}, {.device = test_device()}), 1.0))},
                        {"[dropout] the probability must lie in [0,1), got -0.1",
                         CALL(dropout(Tensor::zeros({1}, {.device = test_device()}), -0.1))},
                        {"[dropout] has no meaning for i32",
                         CALL(dropout(Tensor::zeros({1}, {.dtype = DType::i32, .device = test_device()}),
                                      0.5))}}},
          {.op = "dropout",
           .variant = "0.75",
           .run = RUN(dropped(x[0], 0.75)),
           .oracle = dropout_oracle(0.75),
           .cases = cases}};
}

TEST_CASE("dropout is the identity in evaluation and for p = 0", "[ops][random]") {
  const Tensor x = random_tensor({9});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0.0).is_same(x));
}

TEST_CASE("the mask depends on call, step and seed, not on the dtype", "[ops][random]") {
  const auto mask = [](std::uint64_t seed, std::uint32_t step, int calls_before, DType dtype) {
    const RandomScope scope(seed, step, 0);
    for (int i = 0; i < calls_before; ++i) dropout(Tensor::zeros({1}, {.device = test_device()}), 0.5);
    return dropout(Tensor::full({64}, 1.0, {.dtype = dtype, .device = test_device()}), 0.5)
        .to_vector<double>();
  };
  const auto base = mask(1, 1, 0, DType::f32);
  CHECK(mask(1, 1, 0, DType::f32) == base);
  for (const DType dtype : kFloatingTypes) CHECK(mask(1, 1, 0, dtype) == base);
  CHECK(mask(2, 1, 0, DType::f32) != base);
  CHECK(mask(1, 2, 0, DType::f32) != base);
  CHECK(mask(1, 1, 1, DType::f32) != base);
}

TEST_CASE("dropout keeps the share it should", "[ops][random]") {
  const RandomScope scope(5, 0, 0);
  for (const double p : {0.1, 0.5, 0.9}) {
    int kept = 0;
    for (const double v :
         dropout(Tensor::full({100000}, 1.0, {.device = test_device()}), p).to_vector<double>()) {
      kept += v != 0.0;
      if (v != 0.0 && v != Approx(1.0 / (1.0 - p)).epsilon(1e-6)) FAIL("kept as " << v);
    }
    CHECK(kept / 1e5 == Approx(1 - p).margin(0.006));
  }
}

TEST_CASE("random kernels draw what they say, in every dtype", "[ops][random]") {
  Backend& backend = backend_for(test_device());
  for (const DType dtype : kFloatingTypes) {
    const Tensor y = Tensor::empty({100001}, {.dtype = dtype, .device = test_device()});
    const auto moments = [&] {
      double sum = 0.0, squares = 0.0;
      for (const double v : y.to_vector<double>()) sum += v, squares += v * v;
      const double mean = sum / 100001;
      return std::pair{mean, squares / 100001 - mean * mean};
    };
    if (dtype == DType::f32) {  // between neighbours half of the values would round to the bound
      backend.random_uniform({.seed = 3}, y, 0x1p24, 0x1p24 + 2.0);
      const std::vector<double> edge = y.to_vector<double>();
      CHECK(*std::max_element(edge.begin(), edge.end()) < 0x1p24 + 2.0);
    }
    backend.random_uniform({.seed = 3}, y, -1.0, 3.0);
    const auto [uniform_mean, uniform_variance] = moments();
    CHECK(uniform_mean == Approx(1.0).margin(0.02));
    CHECK(uniform_variance == Approx(16.0 / 12).margin(0.03));
    const std::vector<double> values = y.to_vector<double>();
    CHECK(*std::min_element(values.begin(), values.end()) >= -1.0);
    CHECK(*std::max_element(values.begin(), values.end()) <= 3.0);
    backend.random_normal({.seed = 3}, y, 0.5, 2.0);
    const auto [mean, variance] = moments();
    CHECK(mean == Approx(0.5).margin(0.03));
    CHECK(variance == Approx(4.0).margin(0.08));
  }
}
