// Rows of autograd/ops/reduce.h, and the gradients it documents at ties and zeros.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/engine.h"
#include "autograd/grad_check.h"
#include "autograd/leaf.h"
#include "autograd/ops/reduce.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Values = std::vector<double>;
using Fold = double (*)(const Values&);

const std::vector<Shapes> kAll = {{{3, 5}}, {{}}, {{1}}, {{7}}, {{2, 3, 4}}, {{40013}}, {{67, 301}}};
const std::vector<Shapes> kLast = {{{3, 5}}, {{7}}, {{2, 3, 4}}, {{0, 3}}, {{301, 67}}, {{1, 5}}, {{5, 1}}};
const std::vector<Shapes> kMiddle = {{{2, 3, 4}}, {{5, 7, 3}},   {{0, 2, 3}},
                                     {{2, 3, 0}}, {{9, 301, 5}}, {{3, 4, 1}}};
const std::vector<Shapes> kOuter = {{{2, 3, 4}}, {{3, 2, 5}}, {{31, 2, 101}}, {{1, 3, 1}}};
const std::vector<Shapes> kImages = {{{2, 3, 2, 5}}, {{8, 9, 10, 17}}, {{2, 1, 1, 3}}};

double sum_of(const Values& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
double mean_of(const Values& x) { return sum_of(x) / static_cast<double>(x.size()); }
double squares_about(const Values& x, double centre) {
  double total = 0.0;
  for (const double v : x) total += (v - centre) * (v - centre);
  return total;
}
double variance_of(const Values& x) {
  return squares_about(x, mean_of(x)) / (static_cast<double>(x.size()) - 1.0);
}
double biased_variance_of(const Values& x) {
  return squares_about(x, mean_of(x)) / static_cast<double>(x.size());
}
double product_of(const Values& x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>()); }
double largest_of(const Values& x) { return *std::max_element(x.begin(), x.end()); }
double smallest_of(const Values& x) { return *std::min_element(x.begin(), x.end()); }
double first_largest(const Values& x) {
  return static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin());
}
double first_smallest(const Values& x) {
  return static_cast<double>(std::min_element(x.begin(), x.end()) - x.begin());
}
double log_sum_exp_of(const Values& x) {
  double total = 0.0;
  for (const double v : x) total += std::exp(v);
  return std::log(total);
}
double one_norm(const Values& x) {
  double total = 0.0;
  for (const double v : x) total += std::abs(v);
  return total;
}
double two_norm(const Values& x) { return std::sqrt(squares_about(x, 0.0)); }
double infinity_norm(const Values& x) {
  double largest = 0.0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

using Reducer = Tensor (*)(const Tensor&, const Axes&, bool);

// The five ways of naming axes.
Rows over_axes(const char* op, Reducer reduce, Fold fold, const std::function<void(Row&)>& change = {}) {
  struct Way {
    const char* name;
    Axes axes;            // as passed
    std::vector<int> of;  // non-negative
    bool keep;
    const std::vector<Shapes>& cases;
  };
  const Way ways[] = {{"all", {}, {}, false, kAll},
                      {"middle", {1}, {1}, false, kMiddle},
                      {"outer kept", {0, -1}, {0, 2}, true, kOuter},
                      {"all but channels", {0, 1, 2}, {0, 1, 2}, false, kImages}};
  Rows rows;
  for (const Way& way : ways) {
    rows.push_back({.op = op,
                    .variant = way.name,
                    .run = [=](const TensorList& x) { return reduce(x[0], way.axes, way.keep); },
                    .oracle = [=](const Arrays& x) { return reduced(x[0], way.of, way.keep, fold); },
                    .cases = way.cases});
  }
  rows.push_back(
      {.op = op,
       .variant = "last",
       .run = [=](const TensorList& x) { return reduce(x[0], {-1}, false); },
       .oracle = [=](const Arrays& x) { return reduced(x[0], {x[0].shape.rank() - 1}, false, fold); },
       .cases = kLast});
  rows[0].refusals = {{std::string("[") + op + "] axis 2 is out of range for a tensor of rank 2",
                       [=] {
                         reduce(Tensor::zeros({2, 3}, {.device = test_device()}), {2}, false);
                       }},
                      {"is named twice", [=] {
                         reduce(Tensor::zeros({2, 3}, {.device = test_device()}), {1, -1}, false);
                       }}};
  for (Row& row : rows) {
    row.normalised = true;  // up to 40,013 terms
    if (change) change(row);
  }
  return rows;
}

void small_only(Row& row) {
  row.cases = {{{3, 4}}, {{2, 3}}, {{5, 1}}};
  if (row.variant == "middle" || row.variant == "outer kept")
    row.cases = {{{2, 3, 4}}, {{3, 4, 2}}, {{3, 1, 4}}};
  if (row.variant == "all but channels") row.cases = {{{2, 1, 3, 2}}, {{2, 2, 2, 3}}};
}

void two_values_or_more(Row& row) {
  if (row.variant == "all") row.cases = {{{3, 5}}, {{7}}, {{2, 3, 4}}, {{40013}}};
  if (row.variant == "outer kept") row.cases = {{{2, 3, 4}}, {{31, 2, 101}}};
  if (row.variant == "last") row.cases = {{{3, 5}}, {{7}}, {{0, 3}}, {{301, 67}}};
  if (row.variant == "middle") row.cases = {{{2, 3, 4}}, {{0, 2, 3}}, {{9, 301, 5}}};
}

Rows index_rows_of(const char* op, bool largest) {
  Rows rows;
  for (const int axis : {-1, 0, 1}) {
    rows.push_back({.op = op,
                    .variant = "axis " + std::to_string(axis),
                    .run =
                        [=](const TensorList& x) {
                          return largest ? argmax(x[0], axis, axis == 0) : argmin(x[0], axis, axis == 0);
                        },
                    .oracle =
                        [=](const Arrays& x) {
                          return reduced(x[0], {axis < 0 ? x[0].shape.rank() - 1 : axis}, axis == 0,
                                         largest ? first_largest : first_smallest);
                        },
                    .cases = axis == 1 ? std::vector<Shapes>{{{2, 3, 4}}, {{5, 301, 3}}, {{0, 2, 3}}} : kLast,
                    .draws = {{.low = 0, .high = 3, .whole = true}},  // many ties: the first counts
                    .result = Result::i64,
                    .gradient = false,
                    .integers = true});
    if (axis == 0) rows.back().cases = {{{3, 5}}, {{7}}, {{2, 3, 0}}, {{301, 67}}};
  }
  rows[0].refusals = {{std::string("[") + op + "] an empty range of [3,0] has no extremum", [=] {
                         largest ? argmax(Tensor::zeros({3, 0}, {.device = test_device()}))
                                 : argmin(Tensor::zeros({3, 0}, {.device = test_device()}));
                       }}};
  return rows;
}

Rows cumsum_rows() {
  Rows rows;
  for (const int axis : {0, 1, -1}) {
    const auto oracle = [=](const Arrays& x) {
      const int a = axis < 0 ? axis + x[0].shape.rank() : axis;
      Array y = x[0];
      for_each_index(y.shape, [&](const Indices& i) {
        if (i[static_cast<std::size_t>(a)] == 0) return;
        Indices previous = i;
        --previous[static_cast<std::size_t>(a)];
        y.at(i) += y.at(previous);
      });
      return y;
    };
    rows.push_back({.op = "cumsum",
                    .variant = "axis " + std::to_string(axis),
                    .run = [=](const TensorList& x) { return cumsum(x[0], axis); },
                    .oracle = oracle,
                    .cases = {{{2, 3, 4}}, {{3, 1, 2}}, {{0, 2, 3}}, {{2, 0, 1}}, {{5, 201, 3}}},
                    .normalised = true});
  }
  rows[0].refusals = {
      {"[cumsum] axis 3 is out of range", CALL(cumsum(Tensor::zeros({2, 3}, {.device = test_device()}), 3))}};
  return rows;
}

Row sum_to_row() {
  return {.op = "sum",
          .variant = "sum_to",
          .run = RUN(sum_to(x[0], Shape{3, 1})),
          .oracle =
              [](const Arrays& x) {
                Array y({3, 1});
                for_each_index(x[0].shape, [&](const Indices& i) { y(i[i.size() - 2], 0) += x[0].at(i); });
                return y;
              },
          .cases = {{{3, 4}}, {{2, 3, 4}}, {{5, 2, 3, 1}}, {{0, 3, 1}}},
          .refusals = {{"[sum_to] [3,4] is not a broadcast of [3,1,1]",
                        CALL(sum_to(Tensor::zeros({3, 4}, {.device = test_device()}), Shape{3, 1, 1}))}}};
}

Tensor biased_var(const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, 0.0, keep); }
Tensor unbiased_var(const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, 1.0, keep); }
template <NormOrder order>
Tensor norm_of(const Tensor& x, const Axes& axes, bool keep) {
  return norm(x, order, axes, keep);
}

}  // namespace

Rows tandem::test::reduce_rows() {
  Rows rows;
  const auto append = [&](Rows more) {
    for (Row& row : more) rows.push_back(std::move(row));
  };
  const auto no_empty = [](Row& row) {
    std::erase_if(row.cases, [](const Shapes& shapes) { return shapes[0].numel() == 0; });
  };
  const auto named = [](const char* suffix) { return [suffix](Row& row) { row.variant += suffix; }; };
  append(over_axes("sum", sum, sum_of));
  append(over_axes("mean", mean, mean_of));
  append(over_axes("var", unbiased_var, variance_of, two_values_or_more));
  append(over_axes("var", biased_var, biased_variance_of, named(", biased")));
  append(over_axes("prod", prod, product_of, [](Row& row) {
    small_only(row);
    row.draws = {{.low = 0.5, .high = 1.6}};
  }));
  append(over_axes("max", max, largest_of, no_empty));
  append(over_axes("min", min, smallest_of, no_empty));
  append(over_axes("logsumexp", logsumexp, log_sum_exp_of));
  append(over_axes("norm", norm_of<NormOrder::two>, two_norm));
  append(over_axes("norm", norm_of<NormOrder::one>, one_norm, [&](Row& row) {
    row.variant += ", one";
    row.draws = {{.kinks = {0}}};
  }));
  append(over_axes("norm", norm_of<NormOrder::infinity>, infinity_norm, [&](Row& row) {
    row.variant += ", infinity";
    no_empty(row);
  }));
  append(index_rows_of("argmax", true));
  append(index_rows_of("argmin", false));
  append(cumsum_rows());
  rows.push_back(sum_to_row());
  for (Row& row : rows) {
    if (row.op == std::string("max") && row.variant == "all")
      row.refusals.push_back({"[max] an empty range of [3,0] has no extremum",
                              CALL(max(Tensor::zeros({3, 0}, {.device = test_device()}), {1}))});
    if (row.op == std::string("min") && row.variant == "all")
      row.refusals.push_back({"[min] an empty range of [0] has no extremum",
                              CALL(min(Tensor::zeros({0}, {.device = test_device()})))});
    if (row.op == std::string("var") && row.variant == "all")
      row.refusals.push_back({"[var] 1 values need a correction below their number, got 1",
                              CALL(var(Tensor::zeros({1}, {.device = test_device()})))});
  }
  return rows;
}

TEST_CASE("equal extrema share the gradient evenly", "[ops][reduce]") {
  const Tensor x = leaf(floats({3, 1, 3, 3, 0, 2}, {2, 3}));
  backward(sum(max(x, {1})));
  CHECK(gradient_of(x).to_vector<double>() == Values{0.5, 0, 0.5, 1, 0, 0});
  clear_gradient_of(x);
  backward(norm(x, NormOrder::infinity));
  const Values g = gradient_of(x).to_vector<double>();
  for (std::size_t i = 0; i < 6; ++i) CHECK(g[i] == Approx(i == 0 || i == 2 || i == 3 ? 1.0 / 3 : 0.0));
}

TEST_CASE("the gradient of a product is right where factors are zero", "[ops][reduce]") {
  const auto gradient_at = [](const Values& values) {
    const Tensor x = leaf(tensor_of(values, {static_cast<Index>(values.size())}, DType::f64));
    backward(prod(x));
    return gradient_of(x).to_vector<double>();
  };
  CHECK(gradient_at({2, 3, 4}) == Values{12, 8, 6});
  CHECK(gradient_at({0, 3, 4}) == Values{12, 0, 0});
  CHECK(gradient_at({0, 3, 0}) == Values{0, 0, 0});
  const auto f = RUN(prod(x[0], {1}));
  const Tensor x = tensor_of({2, 0, 3, 0, 0, 5}, {2, 3}, DType::f64);
  CHECK(grad_check(f, {x}).passed);
  CHECK(grad_grad_check(f, {x}).passed);
}

TEST_CASE("norms have gradient 0 at the origin", "[ops][reduce]") {
  for (const NormOrder order : {NormOrder::one, NormOrder::two, NormOrder::infinity}) {
    const Tensor x = leaf(Tensor::zeros({3}, {.device = test_device()}));
    backward(norm(x, order));
    CHECK(gradient_of(x).to_vector<double>() == Values{0, 0, 0});
  }
}

TEST_CASE("NaN counts as the extremum", "[ops][reduce]") {
  const float nan = std::nanf("");
  const Tensor x = floats({1, nan, 9, nan}, {4});
  CHECK(argmax(x).item() == 1);
  CHECK(argmin(x).item() == 1);
  CHECK(std::isnan(max(x).item()));
  CHECK(std::isnan(min(x).item()));
}

TEST_CASE("logsumexp neither overflows nor underflows", "[ops][reduce]") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto at = [](Values values) {
    return logsumexp(tensor_of(values, {static_cast<Index>(values.size())}, DType::f32)).item();
  };
  CHECK(at({1000, 1000}) == Approx(1000 + std::log(2.0)));
  CHECK(at({-1000, -1000}) == Approx(-1000 + std::log(2.0)));
  CHECK(at({-inf, 3}) == 3.0);
  CHECK(at({-inf, -inf}) == -inf);
  CHECK(at({inf, 3}) == inf);
  CHECK(std::isnan(at({std::nan(""), 3})));
}

TEST_CASE("integers are summed exactly, in i64", "[ops][reduce]") {
  const std::int64_t big = std::int64_t{1} << 60;
  const Tensor x = Tensor::from(std::vector<std::int64_t>{big, 1, 2, -big}, {2, 2}, test_device());
  CHECK(sum(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{3});
  const Tensor bytes = Tensor::full({1000}, 255, {.dtype = DType::u8, .device = test_device()});
  CHECK(sum(bytes).dtype() == DType::i64);
  CHECK(sum(bytes).item() == 255000);
  CHECK(sum(Tensor::full({300}, 1, {.dtype = DType::boolean, .device = test_device()})).item() == 300);
  CHECK(max(Tensor::from(std::vector<std::int64_t>{big, big + 1}, {2}, test_device()))
            .to_vector<std::int64_t>()[0] == big + 1);
}

TEST_CASE("16-bit sums accumulate in f32", "[ops][reduce]") {
  // Summing ones in FP16 stalls at 2048, in BF16 at 256.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CHECK(sum(Tensor::full({16384}, 1.0, {.dtype = dtype, .device = test_device()})).item() == 16384.0);
    CHECK(mean(Tensor::full({70000}, 1.0, {.dtype = dtype, .device = test_device()})).item() == 1.0);
    CHECK(norm(Tensor::full({10000}, 300.0, {.dtype = dtype, .device = test_device()})).item() ==
          Approx(30000).epsilon(tolerance_of(dtype).relative));
  }
}

TEST_CASE("the variance of large numbers does not cancel", "[ops][reduce]") {
  Values values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 10000.0 + (i % 2 ? 0.5 : -0.5);
  CHECK(var(tensor_of(values, {4096}, DType::f32), {}, 0.0).item() == Approx(0.25).epsilon(1e-5));
}

TEST_CASE("reductions give the same bits every time", "[ops][reduce]") {
  const Tensor x = random_tensor({300, 401}, DType::f32, 5);
  const double first = sum(x).item();
  for (int i = 0; i < 5; ++i) CHECK(sum(x).item() == first);
}
