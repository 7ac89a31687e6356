// Initialisers: ranges, variances, orthogonality, and dependence on the key alone.
#include "nn/init.h"

#include <omp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

using namespace tandem;
using namespace tandem::nn;

namespace {

struct Moments {
  double mean, variance, low, high;
};

Moments moments_of(const Tensor& tensor) {
  const auto values = tensor.to_vector<double>();
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0.0;
  for (double v : values) squares += (v - mean) * (v - mean);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {mean, squares / n, *low, *high};
}

template <class Init>
std::vector<float> drawn(const Shape& shape, std::uint64_t seed, Init&& init) {
  const RandomScope scope(seed, 0, 0);
  const Tensor weight = parameter_memory(shape);
  init(weight);
  return weight.to_vector<float>();
}

}  // namespace

TEST_CASE("fans follow PyTorch's convention in every layout") {
  CHECK(fans_of({10, 20}).in == 20);  // linear [O,I]
  CHECK(fans_of({10, 20}).out == 10);
  CHECK(fans_of({64, 3, 5, 16}).in == 240);  // filter [O,KH,KW,I]: OIHW has I·KH·KW
  CHECK(fans_of({64, 3, 5, 16}).out == 960);
  CHECK(fans_of({8, 3, 4}).in == 12);  // [O,K,I]
  CHECK_THROWS_AS(fans_of({7}), UserError);
}

TEST_CASE("uniform and normal initialisers have the variance of their papers") {
  const Shape shape{256, 3, 3, 64};
  const double fan_in = 576, fan_out = 2304;
  const RandomScope scope(1, 0, 0);
  const Tensor w = parameter_memory(shape);
  // 147,456 draws: the variance of a sample deviates by about 0.4 % for a normal distribution.
  const auto check = [&](double variance) {
    const Moments m = moments_of(w);
    CHECK(std::abs(m.mean) < 5.0 * std::sqrt(variance / 147456.0));
    CHECK(m.variance == Approx(variance).epsilon(0.02));
    return m;
  };
  init::kaiming_uniform(w);
  Moments m = check(2.0 / fan_in);
  CHECK(m.low >= -std::sqrt(6.0 / fan_in) * (1 + 1e-6));
  CHECK(m.high <= std::sqrt(6.0 / fan_in) * (1 + 1e-6));
  init::kaiming_normal(w);
  check(2.0 / fan_in);
  init::kaiming_normal(w, FanMode::out);
  check(2.0 / fan_out);
  init::xavier_uniform(w);
  m = check(2.0 / (fan_in + fan_out));
  CHECK(m.high <= std::sqrt(6.0 / (fan_in + fan_out)) * (1 + 1e-6));
  init::xavier_normal(w, 2.0);
  check(8.0 / (fan_in + fan_out));
  init::default_weight(w);
  m = check(1.0 / (3.0 * fan_in));
  CHECK(m.high <= 1.0 / std::sqrt(fan_in) * (1 + 1e-6));
  init::normal(w, 0.0, 3.0);
  check(9.0);
}

TEST_CASE("a truncated normal distribution keeps its bounds and its moments") {
  const RandomScope scope(2, 0, 0);
  const Tensor w = parameter_memory({300, 400});
  init::truncated_normal(w, 0.0, 1.0, -2.0, 2.0);
  const Moments m = moments_of(w);
  CHECK(m.low >= -2.0);
  CHECK(m.high <= 2.0);
  CHECK(m.low < -1.99);
  CHECK(m.high > 1.99);
  CHECK(std::abs(m.mean) < 0.015);
  CHECK(m.variance == Approx(0.7737413).epsilon(0.02));  // 1 - 2·2φ(2)/(Φ(2) - Φ(-2))
  init::truncated_normal(w, 5.0, 0.1, 5.0, 6.0);
  CHECK(moments_of(w).low >= 5.0);
  CHECK(moments_of(w).mean == Approx(5.0 + 0.1 * std::sqrt(2.0 / 3.141592653589793)).epsilon(0.01));
  CHECK_THROWS_AS(init::truncated_normal(w, 0.0, 1.0, 2.0, 1.0), UserError);
  CHECK_THROWS_AS(init::truncated_normal(w, 0.0, 1.0, 40.0, 41.0), UserError);
}

TEST_CASE("biases are uniform within one over the root of the weights of an output") {
  const RandomScope scope(5, 0, 0);
  for (const Shape& weight : {Shape{2000, 16}, Shape{2000, 3, 3, 4}, Shape{2000, 1}}) {
    const Tensor bias = parameter_memory({2000});
    init::default_bias(bias, weight);
    const double bound = 1.0 / std::sqrt(static_cast<double>(weight.product(1, weight.rank())));
    const auto values = bias.to_vector<double>();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    CHECK(*low >= -bound);
    CHECK(*high <= bound);
    CHECK(*low < -0.98 * bound);
    CHECK(*high > 0.98 * bound);
  }
}

TEST_CASE("orthogonal weights have orthonormal rows or columns") {
  for (const Shape& shape : {Shape{24, 40}, Shape{40, 24}, Shape{16, 3, 3, 8}, Shape{5, 5}}) {
    const RandomScope scope(3, 0, 0);
    const Tensor w = parameter_memory(shape);
    init::orthogonal(w, 2.0);
    const auto v = w.to_vector<double>();
    const auto rows = static_cast<std::size_t>(shape[0]);
    const std::size_t columns = v.size() / rows;
    const bool by_row = rows <= columns;
    const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
    double worst = 0.0;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        double dot = 0.0;
        for (std::size_t k = 0; k < length; ++k)
          dot += by_row ? v[a * columns + k] * v[b * columns + k] : v[k * columns + a] * v[k * columns + b];
        worst = std::max(worst, std::abs(dot - (a == b ? 4.0 : 0.0)));
      }
    }
    CHECK(worst < 1e-5);
  }
  CHECK_THROWS_AS(init::orthogonal(parameter_memory({4})), UserError);
  // A matrix and its negative are equally likely: the mean of any element is 0.
  constexpr int kDraws = 400;
  std::vector<double> sums(9);
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const RandomScope scope(seed, 0, 0);
    const Tensor w = parameter_memory({3, 3});
    init::orthogonal(w);
    const auto v = w.to_vector<double>();
    for (std::size_t i = 0; i < 9; ++i) sums[i] += v[i] / kDraws;
  }
  for (const double mean : sums) CHECK(std::abs(mean) < 0.12);  // four deviations
}

TEST_CASE("initial weights depend on seed and call alone") {
  const Shape shape{33, 3, 3, 7};
  for (int i = 0; i < kWeightInitCount; ++i) {
    const auto choice = static_cast<WeightInit>(i);
    INFO(name_of(choice));
    const auto init = [&](const Tensor& w) { initialise(w, choice); };
    const auto first = drawn(shape, 7, init);
    CHECK(first == drawn(shape, 7, init));
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    CHECK(first == drawn(shape, 7, init));
    omp_set_num_threads(threads);
    if (choice == WeightInit::zeros) continue;
    CHECK(first != drawn(shape, 8, init));
    CHECK(first != drawn(shape, 7, [&](const Tensor& w) {
            init(parameter_memory({2, 2}));  // one call before
            init(w);
          }));
  }
}

TEST_CASE("gains of nonlinearities") {
  CHECK(gain_of("relu") == Approx(std::sqrt(2.0)));
  CHECK(gain_of("leaky_relu", 1.0) == Approx(1.0));
  CHECK(gain_of("tanh") == Approx(5.0 / 3.0));
  CHECK_THROWS_WITH(gain_of("rely"), Catch::Contains("rely"));
}
