// Reductions and cumulative sums against loops in double precision: any axes, every dtype, empty ranges, NaN,
// and sums that must not lose digits.
#include "core/kernels/reduce.h"

#include <omp.h>

#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "core/convert.h"
#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Shape reduced_shape(const Shape& shape, std::uint32_t axes) {
  Shape result = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes >> axis & 1u) result = result.with(axis, 1);
  }
  return result;
}

// The values of x that meet in each output.
std::vector<std::vector<double>> ranges(const Tensor& x, std::uint32_t axes) {
  const Shape& shape = x.shape();
  const Shape result = reduced_shape(shape, axes);
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(result.numel()));
  const auto values = x.to_vector<double>();
  for (Index i = 0; i < shape.numel(); ++i) {
    Index rest = i, at = 0, step = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (!(axes >> axis & 1u)) at += rest % shape[axis] * step;
      step *= result[axis];
      rest /= shape[axis];
    }
    groups[at].push_back(values[i]);
  }
  return groups;
}

// What every reduction makes of one range.
struct Expected {
  std::array<double, 11> values{};
  double operator[](Reduction op) const { return values[static_cast<std::size_t>(op)]; }
};

Expected expected(const std::vector<double>& range) {
  long double sum = 0, squares = 0, magnitudes = 0, product = 1;
  double largest = -kInf, smallest = kInf, largest_magnitude = 0;
  std::size_t first_largest = 0, first_smallest = 0;
  for (std::size_t i = 0; i < range.size(); ++i) {
    const double v = range[i];
    sum += v;
    squares += v * v;
    magnitudes += std::abs(v);
    product *= v;
    if (v > largest) largest = v, first_largest = i;
    if (v < smallest) smallest = v, first_smallest = i;
    largest_magnitude = std::max(largest_magnitude, std::abs(v));
  }
  long double exponentials = 0;
  for (double v : range) exponentials += std::exp(v - largest);
  Expected result;
  const auto set = [&](Reduction op, long double v) {
    result.values[static_cast<std::size_t>(op)] = static_cast<double>(v);
  };
  set(Reduction::sum, sum);
  set(Reduction::mean, sum / static_cast<long double>(range.size()));
  set(Reduction::prod, product);
  set(Reduction::max, largest);
  set(Reduction::min, smallest);
  set(Reduction::argmax, static_cast<long double>(first_largest));
  set(Reduction::argmin, static_cast<long double>(first_smallest));
  set(Reduction::sum_of_squares, squares);
  set(Reduction::sum_of_abs, magnitudes);
  set(Reduction::max_abs, largest_magnitude);
  set(Reduction::logsumexp, range.empty() ? -kInf : largest + std::log(exponentials));
  return result;
}

constexpr Reduction kArithmetic[] = {Reduction::sum,     Reduction::mean,           Reduction::max,
                                     Reduction::min,     Reduction::sum_of_squares, Reduction::sum_of_abs,
                                     Reduction::max_abs, Reduction::logsumexp};

void check(const Shape& shape, std::uint32_t axes, DType dtype) {
  const Tensor x = normal_tensor(shape, dtype, 1);
  std::vector<Expected> want;
  for (const auto& range : ranges(x, axes)) want.push_back(expected(range));
  const double bound = dtype == DType::f64 ? 1e-13 : 1e-6;
  for (const Reduction op : kArithmetic) {
    INFO(to_string(shape) << " over " << axes << ", " << name_of(dtype) << ", reduction "
                          << static_cast<int>(op));
    const Tensor y = Tensor::full(reduced_shape(shape, axes), 2.0,
                                  {.dtype = dtype == DType::f64 ? DType::f64 : DType::f32});
    // Sums of numbers of either sign are measured against what was summed.
    const auto error = [&](double offset) {
      double worst = 0;
      const auto got = y.to_vector<double>();
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double value = want[i][op] + offset;
        const double size = std::sqrt(want[i][Reduction::sum_of_squares]) + std::abs(value) + 1e-3;
        worst = std::max(worst, std::abs(got[i] - value) / size);
      }
      return worst;
    };
    cpu::backend().reduce().reduce(op, x, axes, y, true);
    REQUIRE(error(2.0) < bound);
    cpu::backend().reduce().reduce(op, x, axes, y, false);
    REQUIRE(error(0.0) < bound);
  }
}

TEST_CASE("reductions over any axes agree with double precision") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    check({}, 0, dtype);
    check({1}, 1, dtype);
    check({17}, 1, dtype);
    check({100003}, 1, dtype);
    check({3, 5}, 0, dtype);
    for (std::uint32_t axes = 0; axes < 16; ++axes) check({3, 4, 1, 5}, axes, dtype);
    for (std::uint32_t axes = 1; axes < 8; ++axes) check({7, 33, 20}, axes, dtype);
    check({2, 3, 2, 3, 2, 3}, 0b010101, dtype);
    check({2, 3, 2, 3, 2, 3}, 0b101010, dtype);
    check({9, 2500}, 2, dtype);
    check({2500, 9}, 1, dtype);
    check({5, 300, 600}, 2, dtype);
    check({4, 28, 28, 16}, 0b0111, dtype);
    check({4, 28, 28, 16}, 0b1011, dtype);
    check({300, 1, 1030}, 1, dtype);
    check({70, 40, 3}, 0b101, dtype);
  }
}

TEST_CASE("large sums keep their digits") {
  const Index count = 3'000'000;
  const Tensor x = Tensor::full(Shape{count}, 0.1);
  const Tensor y = Tensor::empty(Shape{});
  cpu::backend().reduce().reduce(Reduction::sum, x, 1, y, false);
  REQUIRE(std::abs(y.item() / (count * static_cast<double>(0.1f)) - 1) < 2e-7);
  const Tensor rows = x.viewed(Shape{count / 3, 3});
  const Tensor columns = Tensor::empty(Shape{3});
  cpu::backend().reduce().reduce(Reduction::sum, rows, 1, columns, false);
  for (double v : columns.to_vector<double>())
    REQUIRE(std::abs(v / (count / 3 * static_cast<double>(0.1f)) - 1) < 1e-6);
  // Ones in bf16 would stall at 256, in f16 at 2048.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    cpu::backend().reduce().reduce(Reduction::sum, Tensor::full(Shape{50000}, 1.0, {.dtype = dtype}), 1, y,
                                   false);
    REQUIRE(y.item() == 50000.0);
  }
}

TEST_CASE("results do not depend on the number of threads") {
  const Tensor x = normal_tensor(Shape{411, 37, 29}, DType::f32, 3);
  const int threads = omp_get_max_threads();
  for (std::uint32_t axes = 1; axes < 8; ++axes) {
    std::vector<std::vector<float>> results;
    for (const int team : {1, 2, 3, 5}) {
      omp_set_num_threads(team);
      const Tensor y = Tensor::empty(reduced_shape(x.shape(), axes));
      cpu::backend().reduce().reduce(Reduction::sum, x, axes, y, false);
      results.push_back(y.to_vector<float>());
    }
    omp_set_num_threads(threads);
    for (const auto& result : results) REQUIRE(result == results.front());
  }
}

TEST_CASE("reductions over axes in turn, several kept and several reduced") {
  const Tensor x = normal_tensor(Shape{2, 3, 4, 5, 6, 2}, DType::f64, 9);
  for (const std::uint32_t axes : {0b010101u, 0b101010u, 0b010010u, 0b101101u}) {
    std::vector<double> want;
    for (const auto& range : ranges(x, axes)) want.push_back(expected(range)[Reduction::sum]);
    const Tensor y = Tensor::empty(Shape{static_cast<Index>(want.size())}, {.dtype = DType::f64});
    cpu::backend().reduce().reduce(Reduction::sum, x, axes, y, false);
    REQUIRE(normalised_error(y.to_vector<double>(), want) < 1e-13);
  }
}

TEST_CASE("products have no premature overflow") {
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1e30f : 1e-30f;
  values[7] = 3e-30f;
  const Tensor y = Tensor::empty(Shape{});
  cpu::backend().reduce().reduce(Reduction::prod, Tensor::from(values, Shape{3000}), 1, y, false);
  REQUIRE(y.item() == Approx(3.0).epsilon(1e-4));
  // Down columns, with two large ones and two small ones in turn.
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i / 3 % 4 < 2 ? 1e30f : 1e-30f;
  const Tensor columns = Tensor::empty(Shape{3});
  cpu::backend().reduce().reduce(Reduction::prod, Tensor::from(values, Shape{1000, 3}), 1, columns, false);
  for (const float product : columns.to_vector<float>()) REQUIRE(product == Approx(1.0f).epsilon(1e-3));
  const Tensor x = normal_tensor(Shape{6, 5, 4}, DType::f64, 2),
               z = Tensor::empty(Shape{5}, {.dtype = DType::f64});
  cpu::backend().reduce().reduce(Reduction::prod, x, 0b101, z, false);
  std::vector<double> want;
  for (const auto& range : ranges(x, 0b101)) want.push_back(expected(range)[Reduction::prod]);
  REQUIRE(normalised_error(z.to_vector<double>(), want) < 1e-13);
}

TEST_CASE("empty ranges give the neutral element") {
  const Tensor x = Tensor::empty(Shape{3, 0, 2});
  const auto result = [&](Reduction op, std::uint32_t axes) {
    const Tensor y = Tensor::full(reduced_shape(x.shape(), axes), 7.0);
    cpu::backend().reduce().reduce(op, x, axes, y, false);
    return y.to_vector<double>();
  };
  for (const std::uint32_t axes : {0b010u, 0b011u, 0b110u, 0b111u}) {
    for (double v : result(Reduction::sum, axes)) REQUIRE(v == 0.0);
    for (double v : result(Reduction::prod, axes)) REQUIRE(v == 1.0);
    for (double v : result(Reduction::mean, axes)) REQUIRE(std::isnan(v));
    for (double v : result(Reduction::max_abs, axes)) REQUIRE(v == 0.0);
    for (double v : result(Reduction::logsumexp, axes)) REQUIRE(v == -kInf);
  }
  REQUIRE(result(Reduction::sum, 0b101).empty());
}

TEST_CASE("extrema and logsumexp propagate NaN and infinities") {
  for (const int width : {1, 40}) {  // reduced first or last
    Tensor x = normal_tensor(Shape{width == 1 ? Shape{1, 3000} : Shape{3000, width}}, DType::f32, 4);
    const std::uint32_t axes = width == 1 ? 2u : 1u;
    x.data<float>()[1500 * width] = NAN;
    const Tensor y = Tensor::empty(Shape{width});
    for (const Reduction op : {Reduction::max, Reduction::min, Reduction::max_abs, Reduction::logsumexp}) {
      cpu::backend().reduce().reduce(op, x, axes, y, false);
      REQUIRE(std::isnan(y.data<float>()[0]));
      for (Index i = 1; i < width; ++i) REQUIRE(std::isfinite(y.data<float>()[i]));
    }
    const Tensor at = Tensor::empty(Shape{width}, {.dtype = DType::i64});
    for (const Reduction op : {Reduction::argmax, Reduction::argmin}) {
      cpu::backend().reduce().reduce(op, x, axes, at, false);
      REQUIRE(at.data<std::int64_t>()[0] == 1500);
    }
  }
  const Tensor y = Tensor::empty(Shape{2});
  const float low = -std::numeric_limits<float>::infinity();
  cpu::backend().reduce().reduce(Reduction::logsumexp, Tensor::from({low, low, -low, 1.0f}, Shape{2, 2}), 2,
                                 y, false);
  REQUIRE(y.to_vector<float>() == std::vector<float>{low, -low});
  cpu::backend().reduce().reduce(
      Reduction::logsumexp, Tensor::from({1000.0f, 1000.0f, -1000.0f, -1000.0f}, Shape{2, 2}), 2, y, false);
  REQUIRE(y.data<float>()[0] == Approx(1000 + std::log(2.0)));
  REQUIRE(y.data<float>()[1] == Approx(-1000 + std::log(2.0)));
}

TEST_CASE("positions of extrema are the first ones") {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    for (const Shape& shape : {Shape{5}, Shape{3, 2500}, Shape{2500, 3}, Shape{4, 6, 5}, Shape{2, 3, 1100}}) {
      // Coarse values, so that there are ties.
      const Tensor coarse = normal_tensor(shape, DType::f64, 5), x = Tensor::empty(shape, {.dtype = dtype});
      for (Index i = 0; i < shape.numel(); ++i)
        coarse.data<double>()[i] = std::abs(std::round(coarse.data<double>()[i]));
      cpu::backend().cast(coarse, x, false);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const auto groups = ranges(x, 1u << axis);
        for (const Reduction op : {Reduction::argmax, Reduction::argmin}) {
          INFO(to_string(x) << " axis " << axis);
          const Tensor y = Tensor::empty(shape.with(axis, 1), {.dtype = DType::i64});
          cpu::backend().reduce().reduce(op, x, 1u << axis, y, false);
          for (std::size_t i = 0; i < groups.size(); ++i)
            REQUIRE(static_cast<double>(y.data<std::int64_t>()[i]) == expected(groups[i])[op]);
        }
      }
    }
  }
}

TEST_CASE("integers are summed exactly") {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const Tensor y = Tensor::empty(Shape{}, {.dtype = DType::i64});
  cpu::backend().reduce().reduce(Reduction::sum, Tensor::from(std::vector<std::int64_t>{big, 1, 1}, Shape{3}),
                                 1, y, false);
  REQUIRE(y.to_vector<std::int64_t>()[0] == big + 2);
  cpu::backend().reduce().reduce(Reduction::max,
                                 Tensor::from(std::vector<std::int64_t>{1, big, -5}, Shape{3}), 1, y, false);
  REQUIRE(y.to_vector<std::int64_t>()[0] == big);
  cpu::backend().reduce().reduce(Reduction::sum, Tensor::full(Shape{100000}, 1.0, {.dtype = DType::boolean}),
                                 1, y, false);
  REQUIRE(y.to_vector<std::int64_t>()[0] == 100000);
}

TEST_CASE("cumulative sums run along any axis, both ways") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
    for (const Shape& shape : {Shape{1}, Shape{5000}, Shape{3, 7}, Shape{4, 5, 6}, Shape{2, 9, 1100}}) {
      const Tensor x = normal_tensor(shape, dtype, 6);
      const auto in = x.to_vector<double>();
      const DType out = is_integral(dtype) ? DType::i64 : dtype == DType::f64 ? DType::f64 : DType::f32;
      for (int axis = 0; axis < shape.rank(); ++axis) {
        for (const bool reverse : {false, true}) {
          const Tensor y = Tensor::empty(shape, {.dtype = out});
          cpu::backend().reduce().cumsum(x, axis, reverse, y);
          const Index extent = shape[axis], inner = shape.product(axis + 1, shape.rank());
          std::vector<double> want(in.size());
          for (Index i = 0; i < shape.numel(); ++i) {
            const Index row = i / inner % extent;
            for (Index j = reverse ? row : 0; j <= (reverse ? extent - 1 : row); ++j)
              want[i] += in[i + (j - row) * inner];
          }
          REQUIRE(normalised_error(y.to_vector<double>(), want) < (dtype == DType::f64 ? 1e-13 : 1e-6));
        }
      }
    }
  }
}

}  // namespace
