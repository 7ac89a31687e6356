// Rows of autograd/ops/elementwise.h, and tests outside rows: casts between all dtypes, mixed dtypes, ties.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

const std::vector<Shapes> kOne = {{{3, 5}}, {{}}, {{1}}, {{7}}, {{0}}, {{0, 3}}, {{2, 3, 4}}, {{40013}}};
const std::vector<Shapes> kTwo = {{{3, 5}, {3, 5}},      {{3, 5}, {5}},
                                  {{5}, {3, 5}},         {{3, 1}, {1, 5}},
                                  {{2, 3, 4}, {3, 1}},   {{}, {4}},
                                  {{4, 1}, {}},          {{0}, {1}},
                                  {{0, 3}, {3}},         {{2, 1, 3, 1}, {4, 1, 2}},
                                  {{1, 1}, {1}},         {{20011}, {20011}},
                                  {{67, 301}, {301}},    {{67, 301}, {67, 1}},
                                  {{1, 301}, {67, 1}},   {{7, 48}, {48}},
                                  {{7, 48}, {7, 1}},     {{1, 48}, {7, 1}},
                                  {{2, 3, 16}, {3, 16}}, {{2, 3, 16}, {2, 1, 16}}};
const std::vector<Shapes> kThree = {
    {{3, 5}, {3, 5}, {3, 5}}, {{3, 1}, {5}, {3, 5}},    {{4}, {}, {1}},         {{0}, {1}, {1}},
    {{2, 1, 3}, {4, 1}, {1}}, {{9001}, {9001}, {9001}}, {{7, 16}, {16}, {7, 1}}};

const std::vector<double> kMild = {0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 1, -1, 3, -3, 9, -9, 40, -40, kNaN};
const std::vector<double> kWide = {0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 1,    -1,    3,    -3,    9,   -9,
                                   20,  -20,  80,   -80,   1e4, -1e4, 1e30, -1e30, kInf, -kInf, kNaN};
const std::vector<double> kPositive = {1e-30, 1e-6, 0.5, 1, 1.0000001, 2, 10, 1e5, 1e30, kInf, 0.0, kNaN, -1};

// f at every element of one input.
template <class F>
Row unary(const char* op, Run run, F f, Draw draw = {}, std::vector<double> points = kWide) {
  return {.op = op,
          .run = std::move(run),
          .oracle = each(f),
          .cases = kOne,
          .draws = {draw},
          .points = std::move(points)};
}

template <class F>
Row binary(const char* op, Run run, F f, std::vector<Draw> draws = {{}}) {
  return {.op = op, .run = std::move(run), .oracle = each(f), .cases = kTwo, .draws = std::move(draws)};
}

template <class F>
Row comparison(const char* op, Run run, F f) {
  Row row = binary(op, std::move(run), f, {{.low = 0, .high = 2, .whole = true}});
  row.result = Result::boolean;
  row.gradient = false;
  row.integers = true;
  row.refusals = {
      {"do not broadcast", [run = row.run] {
         run({Tensor::zeros({2}, {.device = test_device()}), Tensor::zeros({3}, {.device = test_device()})});
       }}};
  return row;
}

Row with(Row row, const std::function<void(Row&)>& change) {
  change(row);
  return row;
}

const auto kIntegers = [](Row& row) { row.integers = true; };
const auto kNoGradientTwice = [](Row& row) { row.twice = false; };

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Tensor integers(const Shape& shape) {
  return Tensor::zeros(shape, {.dtype = DType::i32, .device = test_device()});
}

Rows unary_rows() {
  const Draw off_zero{.kinks = {0}}, positive{.low = 0.2, .high = 4}, wide{.low = -6, .high = 6};
  return {
      with(unary("neg", RUN(neg(x[0])), [](double x) { return -x; }), kNoGradientTwice),
      with(unary(
               "abs", RUN(abs(x[0])), [](double x) { return std::abs(x); }, off_zero),
           kIntegers),
      unary(
          "sign", RUN(sign(x[0])), [](double x) { return x > 0   ? 1.0
                                                         : x < 0 ? -1.0
                                                                 : x; }, off_zero),
      with(unary("square", RUN(square(x[0])), [](double x) { return x * x; }), kIntegers),
      with(unary(
               "sqrt", RUN(sqrt(x[0])), [](double x) { return std::sqrt(x); }, positive, kPositive),
           [](Row& row) {
             row.refusals = {{"[sqrt] has no meaning for i32", CALL(sqrt(integers({2})))}};
           }),
      unary(
          "rsqrt", RUN(rsqrt(x[0])), [](double x) { return 1 / std::sqrt(x); }, positive, kPositive),
      unary("reciprocal", RUN(reciprocal(x[0])), [](double x) { return 1 / x; },
            {.low = -3, .high = 3, .kinks = {0}, .clearance = 0.3}),
      with(unary("exp", RUN(exp(x[0])), [](double x) { return std::exp(x); }, {.low = -4, .high = 4}),
           [](Row& row) {
             row.refusals = {{"[exp] has no meaning for i32", CALL(exp(integers({2})))}};
           }),
      unary("expm1", RUN(expm1(x[0])), [](double x) { return std::expm1(x); }),
      unary(
          "log", RUN(log(x[0])), [](double x) { return std::log(x); }, positive, kPositive),
      unary("log1p", RUN(log1p(x[0])), [](double x) { return std::log1p(x); }, {.low = -0.7, .high = 4},
            {0.0, 1e-7, -1e-7, 0.5, -0.5, -0.999, 1e5, 1e30, kInf, -1, -2, kNaN}),
      unary(
          "sin", RUN(sin(x[0])), [](double x) { return std::sin(x); }, wide, kMild),
      unary(
          "cos", RUN(cos(x[0])), [](double x) { return std::cos(x); }, wide, kMild),
      unary("tanh", RUN(tanh(x[0])), [](double x) { return std::tanh(x); }),
      unary("sigmoid", RUN(sigmoid(x[0])), sigmoid_of, wide),
      unary("erf", RUN(erf(x[0])), [](double x) { return std::erf(x); }, {.low = -3, .high = 3}),
      with(unary(
               "relu", RUN(relu(x[0])), [](double x) { return x < 0 ? 0.0 : x; }, off_zero),
           kIntegers),
      unary(
          "leaky_relu", RUN(leaky_relu(x[0], 0.2)), [](double x) { return x > 0 ? x : 0.2 * x; }, off_zero),
      unary(
          "elu", RUN(elu(x[0], 1.5)), [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }, off_zero),
      unary("gelu", RUN(gelu(x[0])), [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }, wide,
            {0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 3, -1.5, 20, 1e30, kInf, kNaN}),
      unary("gelu_tanh", RUN(gelu(x[0], GeluForm::tanh)),
            [](double x) {
              return 0.5 * x *
                     (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
            },
            wide, {0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 2, -2, 20, kInf, kNaN}),
      unary("silu", RUN(silu(x[0])), [](double x) { return x * sigmoid_of(x); }, wide,
            {0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 3, -3, 20, -20, 1e30, kInf, kNaN}),
      with(unary("softplus", RUN(softplus(x[0], 2.0, 5.0)),
                 [](double x) { return 2 * x > 5 ? x : std::log1p(std::exp(2 * x)) / 2; },
                 {.low = -4, .high = 4, .kinks = {2.5}}),
           [](Row& row) {
             row.refusals = {{"[softplus] beta must be positive, got 0",
                              CALL(softplus(Tensor::zeros({1}, {.device = test_device()}), 0.0))}};
           }),
      unary("hardswish", RUN(hardswish(x[0])),
            [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
            {.low = -5, .high = 5, .kinks = {-3, 3}}, {0.0, 3, -3, 2.9, -2.9, 10, -10, 1e30, kInf, kNaN}),
      unary("hardsigmoid", RUN(hardsigmoid(x[0])),
            [](double x) { return std::isnan(x) ? x : std::min(std::max(x + 3, 0.0), 6.0) / 6; },
            {.low = -5, .high = 5, .kinks = {-3, 3}}, {0.0, 3, -3, 2.9, -2.9, 10, -10, 1e30, kInf, kNaN}),
      with(unary("relu6", RUN(relu6(x[0])),
                 [](double x) { return std::isnan(x) ? x : std::min(std::max(x, 0.0), 6.0); },
                 {.low = -3, .high = 9, .kinks = {0, 6}}, {0.0, 6, -1, 5.9, 7, 1e30, kInf, kNaN}),
           kIntegers),
      with(unary("clamp", RUN(clamp(x[0], -1, 1)),
                 [](double x) { return std::isnan(x) ? x : std::min(std::max(x, -1.0), 1.0); },
                 {.low = -3, .high = 3, .kinks = {-1, 1}}),
           [](Row& row) {
             row.integers = true;
             row.refusals = {{"[clamp] the lower bound 2 exceeds the upper bound 1",
                              CALL(clamp(Tensor::zeros({1}, {.device = test_device()}), 2, 1))}};
           }),
  };
}

Rows scalar_rows() {
  const Draw positive{.low = 0.3, .high = 3};
  Rows rows = {
      with(unary("add_scalar", RUN(x[0] + 3.0), [](double x) { return x + 3; }), kIntegers),
      unary("add_scalar", RUN(x[0] - 0.3), [](double x) { return x - 0.3; }),
      with(unary("mul_scalar", RUN(x[0] * 3.0), [](double x) { return x * 3; }), kIntegers),
      unary("div_scalar", RUN(x[0] / 3.0), [](double x) { return x / 3; }),
      unary("scalar_sub", RUN(3.0 - x[0]), [](double x) { return 3 - x; }),
      unary("scalar_div", RUN(3.0 / x[0]), [](double x) { return 3 / x; }, {.kinks = {0}, .clearance = 0.3}),
      unary(
          "pow_scalar", RUN(pow(x[0], 2.5)), [](double x) { return std::pow(x, 2.5); }, positive, kPositive),
      unary(
          "pow_scalar", RUN(pow(x[0], 3.0)), [](double x) { return x * x * x; }, {}, kMild),
      unary(
          "pow_scalar", RUN(pow(x[0], -1.0)), [](double x) { return 1 / x; }, positive, kPositive),
      unary("pow_scalar", RUN(pow(x[0], 0.0)), [](double) { return 1.0; }),
      unary("pow_scalar", RUN(pow(x[0], 1.0)), [](double x) { return x; }),
      unary("square", RUN(pow(x[0], 2.0)), [](double x) { return x * x; }),
  };
  const char* variants[] = {"", "sub", "", "", "", "", "2.5", "3", "-1", "0", "1", "pow 2"};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].variant = variants[i];
  rows[0].refusals = {
      {"[add_scalar] 0.5 is not an integer, the tensor holds i32", CALL(integers({2}) + 0.5)}};
  rows[3].refusals = {{"[div_scalar] has no meaning for i32", CALL(integers({2}) / 2.0)}};
  return rows;
}

Rows binary_rows() {
  const Draw any{}, positive{.low = 0.4, .high = 2.5},
      off_zero{.low = -3, .high = 3, .kinks = {0}, .clearance = 0.5};
  const Draw few{.low = 5, .high = 9}, fewer{.low = 0, .high = 4};
  Rows rows = {
      with(binary("add", RUN(x[0] + x[1]), [](double a, double b) { return a + b; }), kIntegers),
      with(binary("sub", RUN(x[0] - x[1]), [](double a, double b) { return a - b; }, {few, fewer}),
           kIntegers),
      with(binary("mul", RUN(x[0] * x[1]), [](double a, double b) { return a * b; }), kIntegers),
      binary("div", RUN(x[0] / x[1]), [](double a, double b) { return a / b; }, {any, off_zero}),
      binary("pow", RUN(pow(x[0], x[1])), [](double a, double b) { return std::pow(a, b); }, {positive, any}),
      with(binary("maximum", RUN(maximum(x[0], x[1])), [](double a, double b) { return a > b ? a : b; }),
           kIntegers),
      with(binary("minimum", RUN(minimum(x[0], x[1])), [](double a, double b) { return a < b ? a : b; }),
           kIntegers),
      binary("lerp_scalar", RUN(lerp(x[0], x[1], 0.3)), [](double a, double b) { return a + 0.3 * (b - a); }),
      comparison("equal", RUN(equal(x[0], x[1])), [](double a, double b) { return a == b; }),
      comparison("not_equal", RUN(not_equal(x[0], x[1])), [](double a, double b) { return a != b; }),
      comparison("less", RUN(less(x[0], x[1])), [](double a, double b) { return a < b; }),
      comparison("less_equal", RUN(less_equal(x[0], x[1])), [](double a, double b) { return a <= b; }),
      comparison("greater", RUN(greater(x[0], x[1])), [](double a, double b) { return a > b; }),
      comparison("greater_equal", RUN(greater_equal(x[0], x[1])), [](double a, double b) { return a >= b; }),
  };
  rows[0].refusals = {{"[add] shapes [2,3] and [2,4] do not broadcast",
                       CALL(Tensor::zeros({2, 3}, {.device = test_device()}) +
                            Tensor::zeros({2, 4}, {.device = test_device()}))}};
  rows[3].refusals = {{"[div] has no meaning for i32", CALL(integers({2}) / integers({2}))}};
  return rows;
}

Rows other_rows() {
  const Draw condition{.low = 0, .high = 1, .whole = true, .dtype = DType::boolean};
  const Draw off_zero{.kinks = {0}};
  const auto prelu_of = [](double x, double slope) { return x > 0 ? x : slope * x; };
  const Oracle truncated = each([](double x) { return std::trunc(x); });
  return {
      {.op = "where",
       .run = RUN(where(x[0], x[1], x[2])),
       .oracle = each([](double c, double a, double b) { return c != 0 ? a : b; }),
       .cases = kThree,
       .draws = {condition, {}, {}},
       .integers = true},
      {.op = "lerp",
       .run = RUN(lerp(x[0], x[1], x[2])),
       .oracle = each([](double a, double b, double w) { return a + w * (b - a); }),
       .cases = kThree},
      {.op = "prelu",
       .run = RUN(prelu(x[0], x[1])),
       .oracle = each(prelu_of),
       .cases = {{{4, 3}, {3}}, {{2, 5}, {1}}, {{2, 3, 7}, {7}}, {{0, 3}, {3}}, {{5}, {}}, {{301, 67}, {67}}},
       .draws = {off_zero, off_zero},
       .refusals = {{"[prelu] slope must have one element or one for each channel of f32[4,3], got f32[4]",
                     CALL(prelu(Tensor::zeros({4, 3}, {.device = test_device()}),
                                Tensor::zeros({4}, {.device = test_device()})))}}},
      {.op = "cast",
       .run = RUN(cast(x[0], DType::i64)),
       .oracle = truncated,
       .cases = kOne,
       .draws = {{.low = -9, .high = 9}},
       .result = Result::i64,
       .gradient = false},
  };
}

}  // namespace

Rows tandem::test::elementwise_rows() {
  Rows rows;
  for (Rows (*part)() : {unary_rows, scalar_rows, binary_rows, other_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("cast goes from every dtype to every dtype", "[ops][elementwise]") {
  const std::vector<double> values{0, 1, 2.5, 7.25, 100.75, 200, 0, 1};
  for (int from = 0; from < kDTypeCount; ++from) {
    const Tensor x = tensor_of(values, {8}, static_cast<DType>(from));
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto target = static_cast<DType>(to);
      INFO(name_of(x.dtype()) << " to " << name_of(target));
      const Tensor y = cast(x, target);
      CHECK(y.dtype() == target);
      CHECK(y.is_same(x) == (from == to));
      CHECK(y.to_vector<double>() == tensor_of(x.to_vector<double>(), {8}, target).to_vector<double>());
    }
  }
}

TEST_CASE("large casts round as single ones do", "[ops][elementwise]") {
  const std::vector<double> values = random_values(70001, 3, -70000, 70000);
  for (const DType from : kFloatingTypes) {
    const Tensor x = tensor_of(values, {70001}, from);
    for (const DType to : kFloatingTypes) {
      INFO(name_of(from) << " to " << name_of(to));
      CHECK(cast(x, to).to_vector<double>() ==
            tensor_of(x.to_vector<double>(), {70001}, to).to_vector<double>());
    }
  }
}

TEST_CASE("the gradient of a cast has the dtype of its input", "[ops][elementwise]") {
  for (const DType from : kFloatingTypes) {
    for (const DType to : kFloatingTypes) {
      const Tensor x = leaf(tensor_of({1, 2, 3}, {3}, from));
      const Tensor y = cast(x, to), dy = tensor_of({0.1, 0.2, 0.3}, {3}, to);
      const Tensor dx = gradients(std::span(&y, 1), std::span(&dy, 1), std::span(&x, 1))[0];
      CHECK(dx.dtype() == from);
      CHECK(dx.to_vector<double>() == tensor_of(dy.to_vector<double>(), {3}, from).to_vector<double>());
    }
  }
}

TEST_CASE("operands of different dtypes give the widest", "[ops][elementwise]") {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto p = static_cast<DType>(i), q = static_cast<DType>(j);
      const Tensor a = tensor_of({0, 1, 1}, {3}, p), b = tensor_of({1, 0, 1}, {3}, q);
      INFO(name_of(p) << " and " << name_of(q));
      CHECK((a * b).dtype() == promote(p, q));
      CHECK((a * b).to_vector<double>() == std::vector<double>{0, 0, 1});
      CHECK(maximum(a, b).to_vector<double>() == std::vector<double>{1, 1, 1});
      CHECK(where(tensor_of({1, 0, 1}, {3}, DType::boolean), a, b).dtype() == promote(p, q));
      CHECK(less(a, b).to_vector<double>() == std::vector<double>{1, 0, 0});
    }
  }
}

TEST_CASE("a narrow operand beside a wide one gets a narrow gradient", "[ops][elementwise]") {
  const Tensor low = leaf(tensor_of({1, 2}, {2}, DType::bf16)), wide = leaf(floats({3, 5}, {2}));
  backward(sum(low * wide));
  CHECK(gradient_of(low).dtype() == DType::bf16);
  CHECK(gradient_of(low).to_vector<double>() == std::vector<double>{3, 5});
  CHECK(gradient_of(wide).dtype() == DType::f32);
  CHECK(gradient_of(wide).to_vector<double>() == std::vector<double>{1, 2});
}

TEST_CASE("16-bit arithmetic is f32 rounded once", "[ops][elementwise]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor a = random_tensor({4099}, dtype, 1, -3, 3), b = random_tensor({4099}, dtype, 2, -3, 3);
    const std::vector<float> p = a.to_vector<float>(), q = b.to_vector<float>();
    std::vector<double> expected;
    for (std::size_t i = 0; i < p.size(); ++i) expected.push_back(static_cast<double>(p[i] * q[i]));
    CHECK((a * b).to_vector<double>() == tensor_of(expected, {4099}, dtype).to_vector<double>());
  }
}

TEST_CASE("FP16 keeps subnormals and overflows to infinity", "[ops][elementwise]") {
  const Tensor x = tensor_of({0x1p-24, 0x1p-14, 60000}, {3}, DType::f16);
  CHECK((x * 1.0).to_vector<double>() == std::vector<double>{0x1p-24, 0x1p-14, 60000});
  CHECK((x * 0.5).to_vector<double>() == std::vector<double>{0.0, 0x1p-15, 30000});
  CHECK((x * 2.0).to_vector<double>() == std::vector<double>{0x1p-23, 0x1p-13, kInf});
}

TEST_CASE("documented gradients at kinks and ties", "[ops][elementwise]") {
  const auto gradient_at = [](double at, const Run& run) {
    const Tensor x = leaf(Tensor::scalar(at, {.device = test_device()}));
    backward(run({x}));
    const Tensor g = gradient_of(x);
    return g.defined() ? g.item() : 0.0;
  };
  CHECK(gradient_at(0, RUN(abs(x[0]))) == 0.0);
  CHECK(gradient_at(0, RUN(relu(x[0]))) == 0.0);
  CHECK(gradient_at(0, RUN(relu6(x[0]))) == 0.0);
  CHECK(gradient_at(6, RUN(relu6(x[0]))) == 0.0);
  CHECK(gradient_at(3, RUN(hardsigmoid(x[0]))) == 0.0);
  CHECK(gradient_at(-3, RUN(hardsigmoid(x[0]))) == 0.0);
  CHECK(gradient_at(1, RUN(clamp(x[0], -1, 1))) == 1.0);
  CHECK(gradient_at(-1, RUN(clamp(x[0], -1, 1))) == 1.0);
  CHECK(gradient_at(1.5, RUN(clamp(x[0], -1, 1))) == 0.0);
  CHECK(gradient_at(2, RUN(maximum(x[0], x[0]))) == 1.0);
  CHECK(gradient_at(0, RUN(pow(x[0], 2.0))) == 0.0);
  CHECK(gradient_at(0, RUN(pow(x[0], 1.0))) == 1.0);
  CHECK(gradient_at(0, RUN(pow(x[0], 0.0))) == 0.0);
  const Tensor a = leaf(floats({1, 2, 3}, {3})), b = leaf(floats({1, 0, 4}, {3}));
  backward(sum(maximum(a, b)));
  CHECK(gradient_of(a).to_vector<double>() == std::vector<double>{0.5, 1, 0});
  CHECK(gradient_of(b).to_vector<double>() == std::vector<double>{0.5, 0, 1});
}

TEST_CASE("maximum and minimum pass NaN on; integer signs survive", "[ops][elementwise]") {
  const Tensor a = floats({1, static_cast<float>(kNaN), 2}, {3}),
               b = floats({static_cast<float>(kNaN), 1, 3}, {3});
  for (const Tensor& y : {maximum(a, b), minimum(a, b), maximum(b, a), minimum(b, a)}) {
    CHECK(std::isnan(y.to_vector<double>()[0]));
    CHECK(std::isnan(y.to_vector<double>()[1]));
    CHECK_FALSE(std::isnan(y.to_vector<double>()[2]));
  }
  const Tensor i = Tensor::from(std::vector<std::int64_t>{-(std::int64_t{1} << 60), 5}, {2}, test_device());
  CHECK(neg(i).to_vector<std::int64_t>() == std::vector<std::int64_t>{std::int64_t{1} << 60, -5});
  CHECK(sign(i).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 1});
  CHECK((i + i).to_vector<std::int64_t>() == std::vector<std::int64_t>{-(std::int64_t{1} << 61), 10});
}
