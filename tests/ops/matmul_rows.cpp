// Rows of autograd/ops/matmul.h.
#include <catch2/catch.hpp>

#include "autograd/ops/matmul_ops.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// By the definition, a number at a time; batch axes equal or absent on one side.
Array product(const Array& a, const Array& b, bool transpose_a, bool transpose_b) {
  const auto batch_of = [](const Array& x) { return std::vector<Index>(x.shape.begin(), x.shape.end() - 2); };
  const std::vector<Index> batch = a.shape.rank() > 2 ? batch_of(a) : batch_of(b);
  const Index m = a.shape.at(transpose_a ? -1 : -2), k = a.shape.at(transpose_a ? -2 : -1);
  const Index n = b.shape.at(transpose_b ? -2 : -1);
  std::vector<Index> extents = batch;
  extents.insert(extents.end(), {m, n});
  Array y{Shape(std::span<const Index>(extents))};
  const auto element = [](const Array& x, Indices batch_index, Index row, Index column, bool transpose) {
    if (x.shape.rank() == 2) batch_index.clear();
    batch_index.push_back(transpose ? column : row);
    batch_index.push_back(transpose ? row : column);
    return x.at(batch_index);
  };
  for_each_index(y.shape, [&](const Indices& i) {
    const Indices batch_index(i.begin(), i.end() - 2);
    for (Index l = 0; l < k; ++l) {
      y.at(i) += element(a, batch_index, i[i.size() - 2], l, transpose_a) *
                 element(b, batch_index, l, i[i.size() - 1], transpose_b);
    }
  });
  return y;
}

Rows matmul_ways() {
  struct Way {
    const char* name;
    bool a, b;
    std::vector<Shapes> cases;
  };
  const Way ways[] = {
      {"plain",
       false,
       false,
       {{{3, 4}, {4, 5}},
        {{1, 7}, {7, 1}},
        {{1, 1}, {1, 1}},
        {{0, 4}, {4, 5}},
        {{3, 0}, {0, 5}},
        {{3, 4}, {4, 0}},
        {{65, 33}, {33, 70}},
        {{2, 3, 4}, {4, 5}},
        {{2, 3, 4}, {2, 4, 5}},
        {{3, 4}, {2, 4, 5}},
        {{2, 2, 3, 4}, {2, 2, 4, 2}},
        {{0, 3, 4}, {0, 4, 2}},
        {{5, 17, 31}, {5, 31, 9}}}},
      {"a transposed",
       true,
       false,
       {{{4, 3}, {4, 5}},
        {{33, 65}, {33, 70}},
        {{2, 4, 3}, {4, 5}},
        {{2, 4, 3}, {2, 4, 5}},
        {{4, 3}, {2, 4, 5}},
        {{1, 4, 3}, {4, 5}},
        {{4, 3}, {1, 4, 5}},
        {{0, 3}, {0, 5}}}},
      {"b transposed",
       false,
       true,
       {{{3, 4}, {5, 4}},
        {{65, 33}, {70, 33}},
        {{2, 3, 4}, {5, 4}},
        {{2, 3, 4}, {2, 5, 4}},
        {{3, 4}, {2, 5, 4}}}},
      {"both transposed",
       true,
       true,
       {{{4, 3}, {5, 4}}, {{33, 65}, {70, 33}}, {{2, 4, 3}, {5, 4}}, {{2, 4, 3}, {2, 5, 4}}}},
  };
  Rows rows;
  for (const Way& way : ways) {
    rows.push_back({.op = "matmul",
                    .variant = way.name,
                    .run = [a = way.a, b = way.b](const TensorList& x) { return matmul(x[0], x[1], a, b); },
                    .oracle = [a = way.a, b = way.b](const Arrays& x) { return product(x[0], x[1], a, b); },
                    .cases = way.cases,
                    .normalised = true});
  }
  rows.push_back({.op = "matmul",
                  .variant = "bmm",
                  .run = RUN(bmm(x[0], x[1])),
                  .oracle = [](const Arrays& x) { return product(x[0], x[1], false, false); },
                  .cases = {{{2, 3, 4}, {2, 4, 5}}, {{1, 1, 1}, {1, 1, 1}}, {{0, 3, 4}, {0, 4, 5}}},
                  .normalised = true,
                  .refusals = {{"[bmm] both operands must be [B,M,K] and [B,K,N], got f32[2,3] and f32[3,2]",
                                CALL(bmm(zeros({2, 3}), zeros({3, 2})))}}});
  rows[0].refusals = {
      {"[matmul] both operands need at least 2 axes, got f32[3] and f32[3,2]",
       CALL(matmul(zeros({3}), zeros({3, 2})))},
      {"[matmul] [2,3] has inner extent 3, [4,5] has 4", CALL(matmul(zeros({2, 3}), zeros({4, 5})))},
      {"[matmul] [2,3] (transposed) has inner extent 2, [4,5] has 4",
       CALL(matmul(zeros({2, 3}), zeros({4, 5}), true))},
      {"[matmul] batch axes of [2,3,4] and [3,4,5] must be equal",
       CALL(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})))},
      {"must be floating, got i32[2,2]",
       CALL(matmul(Tensor::zeros({2, 2}, {.dtype = DType::i32, .device = test_device()}), zeros({2, 2})))}};
  return rows;
}

Rows linear_rows() {
  static constexpr OutputRange kOutputs{1, 3};
  const auto oracle = [](const Arrays& x) {
    const Index outputs = x[1].shape[0], inputs = x[1].shape[1];
    Array y(x[0].shape.with(x[0].shape.rank() - 1, outputs));
    for_each_index(y.shape, [&](const Indices& i) {
      Indices j = i;
      double total = x.size() > 2 ? x[2](i.back()) : 0.0;
      for (Index l = 0; l < inputs; ++l) {
        j.back() = l;
        total += x[0].at(j) * x[1](i.back(), l);
      }
      y.at(i) = total;
    });
    return y;
  };
  return {
      {.op = "linear",
       .variant = "with bias",
       .run = RUN(linear(x[0], x[1], x[2])),
       .oracle = oracle,
       .cases = {{{3, 4}, {5, 4}, {5}},
                 {{4}, {5, 4}, {5}},
                 {{2, 3, 4}, {2, 4}, {2}},
                 {{0, 4}, {5, 4}, {5}},
                 {{1, 1}, {1, 1}, {1}},
                 {{130, 37}, {19, 37}, {19}},
                 {{3, 0}, {5, 0}, {5}},
                 {{3, 4}, {0, 4}, {0}}},
       .normalised = true,
       .refusals = {{"[linear] weight [5,4] expects 4 input features, x is [2,3]",
                     CALL(linear(zeros({2, 3}), zeros({5, 4})))},
                    {"[linear] weight [5,4] needs a bias of [5], got f32[4]",
                     CALL(linear(zeros({2, 4}), zeros({5, 4}), zeros({4})))},
                    {"[linear] weight must be [O,I], got f32[4]", CALL(linear(zeros({2, 4}), zeros({4})))}}},
      {.op = "linear",
       .variant = "without bias",
       .run = RUN(linear(x[0], x[1])),
       .oracle = oracle,
       .cases = {{{3, 4}, {5, 4}}, {{2, 3, 4}, {2, 4}}, {{130, 37}, {19, 37}}},
       .normalised = true},
      {.op = "linear",
       .variant = "part of the outputs",
       .run = RUN(linear_outputs(x[0], x[1], x[2], kOutputs)),
       .oracle =
           [oracle](const Arrays& x) {
             const Array whole = oracle(x);
             Array y(whole.shape.with(whole.shape.rank() - 1, kOutputs.count));
             for_each_index(y.shape, [&](const Indices& i) {
               Indices from = i;
               from.back() += kOutputs.first;
               y.at(i) = whole.at(from);
             });
             return y;
           },
       .cases = {{{3, 4}, {5, 4}, {5}}, {{2, 3, 4}, {4, 4}, {4}}, {{130, 37}, {19, 37}, {19}}},
       .normalised = true,
       .refusals = {{"[linear] outputs from 1 on, 3 of them, are not among the 3 of weight [3,4]",
                     CALL(linear_outputs(zeros({2, 4}), zeros({3, 4}), {}, kOutputs))}}}};
}

Rows gradient_rows() {
  const auto outer = [](const Arrays& x) {
    const Index p = x[0].shape.at(-1), q = x[1].shape.at(-1);
    Array y({p, q});
    for_each_index(x[0].shape, [&](const Indices& i) {
      Indices j = i;
      for (Index l = 0; l < q; ++l) {
        j.back() = l;
        y(i.back(), l) += x[0].at(i) * x[1].at(j);
      }
    });
    return y;
  };
  const auto rows_summed = [](const Arrays& x) {
    Array y({x[0].shape.at(-1)});
    for_each_index(x[0].shape, [&](const Indices& i) { y(i.back()) += x[0].at(i); });
    return y;
  };
  return {
      {.op = "sum_of_outer_products",
       .run = RUN(sum_of_outer_products(x[0], x[1])),
       .oracle = outer,
       .cases =
           {{{4, 3}, {4, 2}}, {{3}, {2}}, {{2, 3, 4}, {2, 3, 2}}, {{0, 3}, {0, 2}}, {{131, 37}, {131, 19}}},
       .result = Result::wide,
       .normalised = true,
       .refusals = {{"[sum_of_outer_products] all axes but the last must be equal, got [4,3] and [5,3]",
                     CALL(sum_of_outer_products(zeros({4, 3}), zeros({5, 3})))}}},
      {.op = "bias_gradient",
       .run = RUN(bias_gradient(x[0])),
       .oracle = rows_summed,
       .cases = {{{4, 3}}, {{3}}, {{2, 3, 2, 5}}, {{0, 3}}, {{8, 9, 10, 17}}},
       .result = Result::wide,
       .normalised = true,
       .refusals = {{"[bias_gradient] x needs at least 1 axis",
                     CALL(bias_gradient(Tensor::scalar(1, {.device = test_device()})))}}}};
}

}  // namespace

Rows tandem::test::matmul_rows() {
  Rows rows;
  for (Rows (*part)() : {matmul_ways, linear_rows, gradient_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("16-bit products accumulate in f32", "[ops][matmul]") {
  // 4096 ones: FP16 would stall at 2048, BF16 at 256.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor ones = Tensor::full({1, 4096}, 1.0, {.dtype = dtype, .device = test_device()});
    CHECK(matmul(ones, ones, false, true).item() == 4096.0);
    CHECK(linear(ones, ones).item() == 4096.0);
  }
}

TEST_CASE("a product of two dtypes has the wider one", "[ops][matmul]") {
  const Tensor full = floats({1, 2, 3, 4}, {2, 2}), half = tensor_of({1, 0, 0, 1}, {2, 2}, DType::f16);
  const Tensor y = matmul(full, half);
  CHECK(y.dtype() == DType::f32);
  CHECK(y.to_vector<double>() == full.to_vector<double>());
}
