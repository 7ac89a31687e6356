// Gather, scatter, one-hot and selection kernels against plain loops, and their range checks.
#include "core/kernels/index.h"

#include <omp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/backend.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Backend& backend() { return backend_for(Device{}); }

Tensor random_index(const Shape& shape, Index extent, DType type, std::uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = random.below(static_cast<std::uint32_t>(extent));
  return tensor_of(values, shape, type);
}

Index position(const Shape& shape, const std::array<Index, kMaxRank>& at) {
  Index result = 0;
  for (int i = 0; i < shape.rank(); ++i) result += at[i] * shape.strides()[i];
  return result;
}

std::array<Index, kMaxRank> coordinates(const Shape& shape, Index linear) {
  std::array<Index, kMaxRank> at{};
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[i] = linear % shape[i];
    linear /= shape[i];
  }
  return at;
}

struct ElementCase {
  Shape x, index;
  int axis;
};
const ElementCase kElementCases[] = {
    {{5}, {9}, 0},
    {{4, 7}, {4, 3}, 1},
    {{6, 7}, {11, 7}, 0},
    {{6, 7}, {3, 4}, 0},
    {{3, 5, 4}, {2, 9, 3}, 1},
    {{3, 5, 4}, {3, 5, 0}, 2},
    {{40, 30, 60}, {40, 80, 60}, 1},
    {{2, 50, 3000}, {2, 40, 3000}, 1},
};

}  // namespace

TEST_CASE("gather takes and scatter_add returns what the index names", "[index]") {
  for (const ElementCase& c : kElementCases) {
    for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64}) {
      for (const DType index_type : {DType::i64, DType::i32}) {
        CAPTURE(to_string(c.x), to_string(c.index), c.axis, name_of(type), name_of(index_type));
        const Tensor index = random_index(c.index, c.x[c.axis], index_type, 1);
        const Tensor x = random_tensor(c.x, type, 2, -5, 5), src = random_tensor(c.index, type, 3, -5, 5);
        const Tensor y = Tensor::empty(c.index, {.dtype = type}), sum = x.clone();
        backend().index().gather(x, index, c.axis, y);
        backend().index().scatter_add(src, index, c.axis, sum);
        const auto xs = x.to_vector<double>(), is = index.to_vector<double>(), ss = src.to_vector<double>();
        std::vector<double> taken(is.size()), summed = xs;
        for (Index i = 0; i < c.index.numel(); ++i) {
          auto at = coordinates(c.index, i);
          at[c.axis] = static_cast<Index>(is[static_cast<std::size_t>(i)]);
          const auto from = static_cast<std::size_t>(position(c.x, at));
          taken[static_cast<std::size_t>(i)] = xs[from];
          summed[from] += ss[static_cast<std::size_t>(i)];
        }
        CHECK(y.to_vector<double>() == taken);
        CHECK(normalised_error(sum.to_vector<double>(), summed) <= tolerance_of(type).relative);
      }
    }
  }
}

TEST_CASE("index_select and index_add move whole slices, in mixed types too", "[index]") {
  struct Case {
    Shape x;
    int axis;
    Index picked;
  };
  const Case cases[] = {{{6, 4}, 0, 9}, {{3, 5, 4}, 1, 7},    {{3, 5, 4}, 2, 2},     {{7}, 0, 3},
                        {{5, 3}, 0, 0}, {{900, 130}, 0, 800}, {{40, 17, 90}, 1, 60}, {{50, 3}, 0, 20000}};
  for (const Case& c : cases) {
    for (const DType x_type : kFloatingTypes) {
      for (const DType y_type : kFloatingTypes) {
        CAPTURE(to_string(c.x), c.axis, c.picked, name_of(x_type), name_of(y_type));
        const Tensor index = random_index({c.picked}, c.x[c.axis], DType::i64, 1);
        const Shape slices = c.x.with(c.axis, c.picked);
        const Tensor x = random_tensor(c.x, x_type, 2), y = Tensor::empty(slices, {.dtype = y_type});
        const Tensor src = random_tensor(slices, x_type, 3), sum = random_tensor(c.x, y_type, 4);
        const Index skip = c.x[c.axis] / 2;
        const auto xs = x.to_vector<double>(), is = index.to_vector<double>(), ss = src.to_vector<double>();
        std::vector<double> taken(ss.size()), summed = sum.to_vector<double>();
        for (Index i = 0; i < slices.numel(); ++i) {
          auto at = coordinates(slices, i);
          at[c.axis] = static_cast<Index>(is[static_cast<std::size_t>(at[c.axis])]);
          const auto from = static_cast<std::size_t>(position(c.x, at));
          taken[static_cast<std::size_t>(i)] = xs[from];
          if (at[c.axis] != skip) summed[from] += ss[static_cast<std::size_t>(i)];
        }
        backend().index().index_select(x, index, c.axis, y);
        backend().index().index_add(src, index, c.axis, sum, skip);
        CHECK(y.to_vector<double>() == tensor_of(taken, slices, y_type).to_vector<double>());
        // Thousands of terms a row, added one after the other in f32.
        const double terms = 1.0 + static_cast<double>(c.picked) / 100.0;
        CHECK(normalised_error(sum.to_vector<double>(), summed) <= tolerance_of(y_type).relative * terms);
      }
    }
  }
}

TEST_CASE("sums over repeated indices do not depend on the number of threads", "[index]") {
  const Tensor index = random_index({5000}, 10, DType::i64, 1);
  const Tensor wide = random_tensor({5000, 70}, DType::f32, 2),
               narrow = random_tensor({5000, 9}, DType::f32, 3);
  const int threads = omp_get_max_threads();
  std::vector<std::vector<float>> results[2];
  for (const int team : {1, 2, 3}) {
    omp_set_num_threads(team);
    int which = 0;
    for (const Tensor& src : {wide, narrow}) {
      const Tensor sum = Tensor::zeros({10, src.size(1)});
      backend().index().index_add(src, index, 0, sum);
      results[which++].push_back(sum.to_vector<float>());
    }
  }
  omp_set_num_threads(threads);
  for (const auto& runs : results) {
    CHECK(runs[0] == runs[1]);
    CHECK(runs[0] == runs[2]);
  }
}

TEST_CASE("16-bit sums are rounded once", "[index]") {
  // Ones added to 2048 in f16 storage would stay 2048 if every addition were rounded.
  const Tensor sum = tensor_of({2048.0}, {1}, DType::f16),
               ones = tensor_of(std::vector<double>(64, 1.0), {64}, DType::f16);
  backend().index().index_add(ones, Tensor::zeros({64}, {.dtype = DType::i64}), 0, sum);
  CHECK(sum.item() == 2112.0);
  backend().index().scatter_add(ones, Tensor::zeros({64}, {.dtype = DType::i64}), 0, sum);
  CHECK(sum.item() == 2176.0);
}

TEST_CASE("a bad index is named with its position before anything is written", "[index]") {
  const Tensor x = random_tensor({4, 3}), y = Tensor::zeros({2, 3});
  for (const DType type : {DType::i64, DType::i32}) {
    CHECK_FAILS(UserError, backend().index().gather(x, tensor_of({0, 1, 2, 3, -1, 9}, {2, 3}, type), 0, y),
                "[gather] index -1 at position [1,1] lies outside [0,4)");
    CHECK_FAILS(UserError,
                backend().index().scatter_add(y, tensor_of({0, 1, 2, 3, 0, 4}, {2, 3}, type), 0, x),
                "[scatter_add] index 4 at position [1,2] lies outside [0,4)");
    CHECK_FAILS(UserError, backend().index().index_select(x, tensor_of({0, 4}, {2}, type), 0, y, "embedding"),
                "[embedding] index 4 at position [1] lies outside [0,4)");
    CHECK_FAILS(UserError, backend().index().index_add(y, tensor_of({0, -4}, {2}, type), 0, x),
                "[index_add] index -4 at position [1]");
    CHECK_FAILS(UserError, backend().index().one_hot(tensor_of({0, 3}, {2}, type), y),
                "[one_hot] index 3 at position [1] lies outside [0,3)");
  }
  CHECK(y.to_vector<double>() == std::vector<double>(6, 0.0));
}

TEST_CASE("one_hot sets one element a row in any dtype", "[index]") {
  for (int type = 0; type < kDTypeCount; ++type) {
    const Tensor y = Tensor::empty({2, 2, 3}, {.dtype = static_cast<DType>(type)});
    backend().index().one_hot(tensor_of({0, 2, 1, 1}, {2, 2}, DType::i64), y);
    CHECK(y.to_vector<double>() == std::vector<double>{1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0});
  }
}

namespace {

// Positions in stable order, NaN counted as largest.
std::vector<Index> stable_order(const std::vector<double>& line, bool largest) {
  std::vector<Index> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  const auto below = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) {
    const double a = line[static_cast<std::size_t>(i)], b = line[static_cast<std::size_t>(j)];
    return largest ? below(b, a) : below(a, b);
  });
  return order;
}

}  // namespace

TEST_CASE("topk is stable, ordered, and puts NaN first among the largest", "[index]") {
  struct Case {
    Shape shape;
    int axis;
    Index k;
  };
  const Case cases[] = {{{7}, 0, 7},    {{5, 9}, 1, 3},     {{6, 4, 5}, 1, 2},    {{6, 4, 5}, 0, 6},
                        {{3, 8}, 1, 0}, {{20, 1000}, 1, 5}, {{20, 1000}, 1, 700}, {{4, 0}, 1, 0}};
  for (const Case& c : cases) {
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      for (const bool largest : {true, false}) {
        CAPTURE(to_string(c.shape), c.axis, c.k, name_of(type), largest);
        auto values = random_values(c.shape.numel(), 7, is_floating(type) ? -3.0 : 0.0, 3.0);
        for (double& v : values) v = std::round(v * 2) / 2;  // many equals, both zeros
        for (std::size_t i = 0; is_floating(type) && i < values.size(); i += 11) {
          const double special[] = {std::nan(""), 0.0, -0.0, std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity()};
          values[i] = special[i / 11 % 5];
        }
        const Tensor x = tensor_of(values, c.shape, type);
        const Shape result = c.shape.with(c.axis, c.k);
        const Tensor top = Tensor::empty(result, {.dtype = type}),
                     at = Tensor::empty(result, {.dtype = DType::i64});
        backend().index().topk(x, c.k, c.axis, largest, top, at);
        const auto xs = x.to_vector<double>(), tops = top.to_vector<double>();
        const auto ats = at.to_vector<Index>();
        const Index inner = c.shape.product(c.axis + 1, c.shape.rank()), extent = c.shape[c.axis];
        std::size_t wrong = 0;
        for (Index line = 0; line < c.shape.product(0, c.axis) * inner; ++line) {
          const Index first = line / inner * extent * inner + line % inner;
          std::vector<double> elements;
          for (Index i = 0; i < extent; ++i)
            elements.push_back(xs[static_cast<std::size_t>(first + i * inner)]);
          const auto order = stable_order(elements, largest);
          for (Index j = 0; j < c.k; ++j) {
            const auto to = static_cast<std::size_t>((line / inner * c.k + j) * inner + line % inner);
            const Index expected = order[static_cast<std::size_t>(j)];
            wrong +=
                ats[to] != expected || !close(tops[to], elements[static_cast<std::size_t>(expected)], {0, 0});
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}
