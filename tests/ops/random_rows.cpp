// Rows of autograd/ops/random.h, and the statistics of the random kernels.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/observers.h"
#include "autograd/ops/random.h"
#include "core/backend.h"
#include "core/kernels/random.h"
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

Tensor locked(const Tensor& x, double p) {
  const RandomScope scope(kSeed, /*step=*/3, /*micro_batch=*/1);
  return locked_dropout(x, p);
}

Tensor drawn_normal(const Tensor& like, double mean, double stddev) {
  const RandomScope scope(kSeed, /*step=*/3, /*micro_batch=*/1);
  return random_normal(like.shape(),
                       {.mean = mean, .stddev = stddev, .dtype = like.dtype(), .device = test_device()});
}

Tensor drawn_uniform(const Tensor& like, double low, double high) {
  const RandomScope scope(kSeed, /*step=*/3, /*micro_batch=*/1);
  return random_uniform(like.shape(), low, high, {.dtype = like.dtype(), .device = test_device()});
}

// f(element, words of its block) for every element of the shape of the input.
template <class F>
Oracle of_words(F f) {
  return [f](const Arrays& x) {
    const RandomKey key{.seed = kSeed, .purpose = RandomPurpose::user, .step = 3, .micro_batch = 1};
    Array y(x[0].shape);
    for (std::size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = f(i, philox(key, static_cast<std::uint32_t>(i / 4)));
    return y;
  };
}

Oracle uniform_oracle(double low, double high) {
  return of_words([=](std::size_t i, const std::array<std::uint32_t, 4>& words) {
    return low + (high - low) * std::floor(words[i % 4] / 256.0) * 0x1p-24;
  });
}

// A pair of words gives a pair of numbers, by the cosine and by the sine.
Oracle normal_oracle(double mean, double stddev) {
  return of_words([=](std::size_t i, const std::array<std::uint32_t, 4>& words) {
    const double u = (words[i % 4 / 2 * 2] + 0.5) / 0x1p32, v = (words[i % 4 / 2 * 2 + 1] + 0.5) / 0x1p32;
    const double turn = 2.0 * 3.14159265358979323846 * v, radius = std::sqrt(-2.0 * std::log(u));
    return mean + stddev * radius * (i % 2 == 0 ? std::cos(turn) : std::sin(turn));
  });
}

// The mask from its key: element i is kept where word i % 4 of block i / 4 is at least p·2³².
Oracle dropout_oracle(double p, bool locked = false) {
  return [p, locked](const Arrays& x) {
    const RandomKey key{
        .seed = kSeed, .purpose = RandomPurpose::dropout, .call = 0, .step = 3, .micro_batch = 1};
    Array y = x[0];
    const std::size_t steps = locked ? static_cast<std::size_t>(y.shape[0]) : 1;
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const std::size_t place = i % (y.values.size() / steps);
      const std::uint32_t word = philox(key, static_cast<std::uint32_t>(place / 4))[place % 4];
      y.values[i] = word >= p * 0x1p32 ? y.values[i] / (1 - p) : 0.0;
    }
    return y;
  };
}

const std::vector<Shapes> kCases = {{{5, 3}}, {{}}, {{1}}, {{0, 2}}, {{7}}, {{40013}}};

Rows dropout_rows() {
  return {{.op = "dropout",
           .variant = "0.3",
           .run = RUN(dropped(x[0], 0.3)),
           .oracle = dropout_oracle(0.3),
           .cases = kCases,
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
           .cases = kCases},
          {.op = "dropout",
           .variant = "next to 1",  // the bound of words is 2³², which no word reaches
           .run = RUN(dropped(x[0], std::nextafter(1.0, 0.0))),
           .oracle = dropout_oracle(std::nextafter(1.0, 0.0)),
           .cases = kCases},
          {.op = "dropout",
           .variant = "locked",
           .run = RUN(locked(x[0], 0.4)),
           .oracle = dropout_oracle(0.4, true),
           .cases = {{{5, 3}}, {{4, 2, 3}}, {{1}}, {{0, 2}}, {{3, 0}}, {{7}}, {{3, 13337}}},
           .refusals = {{"[dropout] a scalar has no axis that shares a mask",
                         CALL(locked_dropout(Tensor::zeros({}, {.device = test_device()}), 0.5))},
                        {"[dropout] the probability must lie in [0,1), got 1",
                         CALL(locked_dropout(Tensor::zeros({1}, {.device = test_device()}), 1.0))}}}};
}

Rows drawing_rows() {
  const auto draw = [](const char* op, const char* variant, Run run, Oracle oracle) {
    return Row{.op = op,
               .variant = variant,
               .run = std::move(run),
               .oracle = std::move(oracle),
               .cases = kCases,
               .gradient = false};
  };
  Rows rows{draw("random_normal", "standard", RUN(drawn_normal(x[0], 0, 1)), normal_oracle(0, 1)),
            draw("random_normal", "moved", RUN(drawn_normal(x[0], -3, 0.25)), normal_oracle(-3, 0.25)),
            draw("random_normal", "of one value", RUN(drawn_normal(x[0], 2, 0)), normal_oracle(2, 0)),
            draw("random_uniform", "unit", RUN(drawn_uniform(x[0], 0, 1)), uniform_oracle(0, 1)),
            draw("random_uniform", "wide", RUN(drawn_uniform(x[0], -2, 6)), uniform_oracle(-2, 6)),
            draw("random_uniform", "of one value", RUN(drawn_uniform(x[0], 2, 2)), uniform_oracle(2, 2))};
  rows[0].refusals = {
      {"[random_normal] draws floating numbers, not i64", CALL(random_normal({1}, {.dtype = DType::i64}))},
      {"[random_normal] mean 0 and standard deviation -1 must be finite, the deviation not negative",
       CALL(random_normal({1}, {.stddev = -1.0}))},
      {"[random_normal] mean nan and", CALL(random_normal({1}, {.mean = std::nan("")}))},
      {"[random_normal] [131072,131073] has more than the 2^34 elements",
       CALL(random_normal({131072, 131073}))}};
  rows[3].refusals = {
      {"[random_uniform] draws floating numbers, not u8", CALL(random_uniform({1}, 0, 1, {DType::u8}))},
      {"[random_uniform] needs low <= high, both finite, got 1 and 0", CALL(random_uniform({1}, 1, 0))},
      {"[random_uniform] needs low <= high, both finite, got 0 and inf",
       CALL(random_uniform({1}, 0, INFINITY))}};
  return rows;
}

}  // namespace

Rows tandem::test::random_rows() {
  Rows rows = dropout_rows();
  for (Row& row : drawing_rows()) rows.push_back(std::move(row));
  return rows;
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
      backend.random().random_uniform({.seed = 3}, y, 0x1p24, 0x1p24 + 2.0);
      const std::vector<double> edge = y.to_vector<double>();
      CHECK(*std::max_element(edge.begin(), edge.end()) < 0x1p24 + 2.0);
    }
    backend.random().random_uniform({.seed = 3}, y, -1.0, 3.0);
    const auto [uniform_mean, uniform_variance] = moments();
    CHECK(uniform_mean == Approx(1.0).margin(0.02));
    CHECK(uniform_variance == Approx(16.0 / 12).margin(0.03));
    const std::vector<double> values = y.to_vector<double>();
    CHECK(*std::min_element(values.begin(), values.end()) >= -1.0);
    CHECK(*std::max_element(values.begin(), values.end()) <= 3.0);
    backend.random().random_normal({.seed = 3}, y, 0.5, 2.0);
    const auto [mean, variance] = moments();
    CHECK(mean == Approx(0.5).margin(0.03));
    CHECK(variance == Approx(4.0).margin(0.08));
  }
}

TEST_CASE("drawn numbers depend on seed, step, micro-batch and call, not on the shape", "[ops][random]") {
  const auto draw = [](std::uint64_t seed, std::uint32_t step, std::uint32_t micro_batch, const Shape& shape,
                       int calls_before = 0) {
    const RandomScope scope(seed, step, micro_batch);
    for (int i = 0; i < calls_before; ++i) random_uniform({1}, 0, 1, {.device = test_device()});
    return random_normal(shape, {.device = test_device()}).to_vector<double>();
  };
  const auto base = draw(1, 2, 3, {4, 6});
  CHECK(draw(1, 2, 3, {24}) == base);
  CHECK(draw(2, 2, 3, {24}) != base);
  CHECK(draw(1, 3, 3, {24}) != base);
  CHECK(draw(1, 2, 4, {24}) != base);
  CHECK(draw(1, 2, 3, {24}, 1) != base);
  const auto longer = draw(1, 2, 3, {25});
  CHECK(std::equal(base.begin(), base.end(), longer.begin()));
}

TEST_CASE("random numbers drawn under a counter are those of the step it makes", "[ops][random]") {
  const Tensor counter = Tensor::from(std::vector<std::int64_t>{0}, {1}, test_device());
  const auto draw = [&](std::uint32_t step, const std::int64_t* at) {
    const RandomScope scope(5, step, 0, at);
    return std::pair{random_normal({9}, {.device = test_device()}).to_vector<double>(),
                     random_uniform({9}, 0, 1, {.device = test_device()}).to_vector<double>()};
  };
  const auto third = draw(3, nullptr);
  CHECK(draw(3, counter.data<std::int64_t>()) == third);
  backend_for(test_device()).fill(counter, 2.0);
  CHECK(draw(1, counter.data<std::int64_t>()) == third);
  CHECK(draw(3, counter.data<std::int64_t>()) == draw(5, nullptr));
}

TEST_CASE("a draw is an op that observers see, without inputs, and leaves no tape", "[ops][random]") {
  struct Log final : OpObserver {
    std::vector<std::string> names;
    void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                       std::span<const Tensor> outputs) override {
      CHECK(inputs.empty());
      CHECK(outputs.size() == 1);
      names.emplace_back(info.name);
    }
  } log;
  const ObserverScope scope(log);
  CHECK_FALSE(random_normal({3}, {.device = test_device()}).requires_grad());
  const Tensor half = random_uniform({3}, 0, 1, {.dtype = DType::f16, .device = test_device()});
  CHECK(half.dtype() == DType::f16);
  CHECK(log.names == std::vector<std::string>{"random_normal", "random_uniform"});
}
