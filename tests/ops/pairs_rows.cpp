// Rows of autograd/ops/pairs.h.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/pairs.h"
#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kTheta = 50.0;

struct Turn {
  const char* name;
  Index heads, first;
  std::vector<std::int64_t> positions;  // of [N,T] = [2,3], or empty
  bool interleaved;
};

Tensor turned(const Tensor& x, const Turn& turn) {
  if (!x.defined()) return rotary(x, {});
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor table =
      rotary_table(40, x.size(-1) / turn.heads, kTheta, {.dtype = dtype, .device = x.device()});
  Tensor positions;
  if (!turn.positions.empty()) {
    positions = Tensor::empty({x.size(0), x.size(1)}, {.dtype = DType::i64});
    for (Index i = 0; i < positions.numel(); ++i)
      positions.data<std::int64_t>()[i] = turn.positions[static_cast<std::size_t>(i)];
    positions = positions.to(x.device());
  }
  return rotary(x, table, {turn.heads, turn.first, positions, turn.interleaved});
}

// Complex numbers times e^(i·angle).
Array turned_oracle(const Array& x, const Turn& turn) {
  Array y = x;
  const Index depth = x.shape[2] / turn.heads;
  for_each_index(x.shape, [&](const Indices& i) {
    const Index column = i[2] % depth, head = i[2] - column;
    const Index pair = turn.interleaved ? column / 2 : column % (depth / 2);
    const bool imaginary = turn.interleaved ? column % 2 == 1 : column >= depth / 2;
    const Index other = turn.interleaved ? (imaginary ? column - 1 : column + 1)
                                         : (imaginary ? column - depth / 2 : column + depth / 2);
    const auto position = static_cast<double>(
        turn.positions.empty() ? turn.first + i[1]
                               : turn.positions[static_cast<std::size_t>(i[0] * x.shape[1] + i[1])]);
    const double angle =
        position * std::pow(kTheta, -2.0 * static_cast<double>(pair) / static_cast<double>(depth));
    const double here = x.at(i), there = x.at({i[0], i[1], head + other});
    y.at(i) = here * std::cos(angle) + (imaginary ? there : -there) * std::sin(angle);
  });
  return y;
}

Rows rotary_rows() {
  const Turn turns[] = {{"halves", 2, 0, {}, false},
                        {"interleaved", 2, 0, {}, true},
                        {"from a position on", 3, 5, {}, false},
                        {"positions", 1, 0, {0, 39, 4, 4, 1, 7}, false},
                        {"positions, interleaved", 2, 0, {3, 2, 1, 0, 20, 21}, true}};
  Rows rows;
  for (const Turn& turn : turns) {
    const Index h = turn.heads;
    std::vector<Shapes> cases = {{{2, 3, 4 * h}}, {{2, 3, 16 * h}}, {{2, 3, 2 * h}}};
    if (turn.positions.empty()) {
      cases.push_back({{0, 3, 4 * h}});
      cases.push_back({{3, 30, 32 * h}});
    }
    rows.push_back({.op = "rotary",
                    .variant = turn.name,
                    .run = [turn](const TensorList& x) { return turned(x[0], turn); },
                    .oracle = [turn](const Arrays& x) { return turned_oracle(x[0], turn); },
                    .cases = cases});
  }
  rows[0].refusals = {
      {"[rotary] 3 rows from position 2 on exceed the 4 positions of the table; make a longer table",
       CALL(rotary(zeros({1, 3, 4}), rotary_table(4, 4, 1e4, {.device = test_device()}), {.first = 2}))},
      {"[rotary] 2 heads of the table's 4 columns must be the 4 columns of f32[1,3,4]",
       CALL(rotary(zeros({1, 3, 4}), rotary_table(4, 4, 1e4, {.device = test_device()}), {.heads = 2}))},
      {"[rotary] positions must be i64 [1,3], one for each row of f32[1,3,4], got f32[1,3]",
       CALL(rotary(zeros({1, 3, 4}), rotary_table(4, 4, 1e4, {.device = test_device()}),
                   {.positions = zeros({1, 3})}))},
      {"[rotary_table] needs an even width, positions and a positive theta, got width 3",
       CALL(rotary_table(4, 3))}};
  return rows;
}

Rows swiglu_rows() {
  return {{.op = "swiglu",
           .run = RUN(swiglu(x[0])),
           .oracle =
               [](const Arrays& x) {
                 const int last = x[0].shape.rank() - 1;
                 const Index width = x[0].shape[last] / 2;
                 Array y(x[0].shape.with(last, width));
                 for_each_index(y.shape, [&](const Indices& i) {
                   Indices there = i;
                   there.back() += width;
                   const double gate = x[0].at(i);
                   y.at(i) = gate / (1.0 + std::exp(-gate)) * x[0].at(there);
                 });
                 return y;
               },
           .cases = {{{3, 8}}, {{2, 3, 6}}, {{2}}, {{0, 4}}, {{3, 0}}, {{5, 64}}, {{3, 4098}}, {{40, 2048}}},
           .refusals = {{"[swiglu] x must be floating [...,2F], gates and values, got f32[2,3]",
                         CALL(swiglu(zeros({2, 3})))}}}};
}

}  // namespace

Rows tandem::test::pairs_rows() {
  Rows rows = rotary_rows();
  for (Row& row : swiglu_rows()) rows.push_back(std::move(row));
  return rows;
}

namespace {

void check_close(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> values = got.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(expected[i]).margin(1e-6));
}

}  // namespace

// RoPE of (1 2 3 4) as HF's Llama (halves) and GPT-J (interleaved) compute it, in FP64.
TEST_CASE("rotary positions of known values", "[ops][pairs]") {
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 1, 4}, DType::f64);
  const Tensor table = rotary_table(1001, 4, 1e4, {.dtype = DType::f64, .device = test_device()});
  const auto at = [&](Index position, bool interleaved) {
    return rotary(x, table, {.first = position, .interleaved = interleaved});
  };
  check_close(at(1, false), {-1.984111, 1.959901, 2.462378, 4.019800});
  check_close(at(2, false), {-3.144039, 1.919605, -0.339143, 4.039197});
  check_close(at(1000, false), {-1.918260, 0.497941, 2.514017, -4.444328});
  check_close(at(1, true), {-1.142640, 1.922076, 2.959851, 4.029800});
  check_close(at(2, true), {-2.234742, 0.077004, 2.919405, 4.059196});
  check_close(at(1000, true), {-1.091380, 1.951638, -0.341130, -4.988349});
}

// HF's and Tandem's GELUs, of the same page of values.
TEST_CASE("both forms of GELU have known values", "[ops][pairs]") {
  const Tensor x = tensor_of({-3, -2, -1, -0.5, 0.5, 1, 2, 3}, {8}, DType::f64);
  check_close(gelu(x), {-0.004050, -0.045500, -0.158655, -0.154269, 0.345731, 0.841345, 1.954500, 2.995950});
  check_close(gelu(x, GeluForm::tanh),
              {-0.003637, -0.045402, -0.158808, -0.154286, 0.345714, 0.841192, 1.954598, 2.996363});
}

TEST_CASE("the angles of 16-bit rows are f32", "[ops][pairs]") {
  // Position 257 is 256 in BF16.
  const Tensor x = tensor_of({1, 0}, {1, 1, 2}, DType::bf16);
  const Tensor table = rotary_table(258, 2, 1e4, {.device = test_device()});
  const std::vector<double> y = rotary(x, table, {.first = 257}).to_vector<double>();
  CHECK(y[0] == Approx(std::cos(257.0)).epsilon(4e-3));
  CHECK(y[1] == Approx(std::sin(257.0)).epsilon(4e-3));
}
