// Declared traits of ops against their behaviour: multiply-adds against sums of products of ones and against
// loops, value-preserving ops against their inputs.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rnn.h"
#include "tests/ops/harness.h"

using namespace tandem;
using namespace tandem::test;

namespace {

static_assert(!OpTraits{.kind = OpKind::product}.is_complete());
static_assert(!OpTraits{.kind = OpKind::attention}.is_complete());
static_assert(!OpTraits{.kind = OpKind::recurrent}.is_complete());
static_assert(OpTraits{.kind = OpKind::normalises}.is_complete());

Tensor ones(const Shape& shape) { return Tensor::full(shape, 1.0, {.dtype = DType::f64}); }

// Multiply-adds that the ops of a run state, and the sum of what the last of them gave.
class Stated final : public OpObserver {
 public:
  template <class Work>
  explicit Stated(const Work& work) {
    const ObserverScope observed(*this);
    work();
  }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (!info.traits.products) return;
    ops.insert(info.name);
    multiply_adds += info.traits.multiply_adds(inputs, outputs);
    sum = 0.0;
    for (const double value : outputs[0].to_vector<double>()) sum += value;
  }

  std::set<std::string> ops;
  std::int64_t multiply_adds = 0;
  double sum = 0.0;
};

// Of ones, without padding: every multiply-add gives 1.
const std::vector<std::pair<const char*, std::function<Tensor()>>>& products_of_ones() {
  static const Conv2dOptions grouped{.stride = {2, 1}, .dilation = {1, 2}, .groups = 2};
  static const std::vector<std::pair<const char*, std::function<Tensor()>>> all = {
      {"matmul",
       [] {
         return matmul(ones({2, 3, 4}), ones({2, 4, 5}));
       }},
      {"matmul, one for all",
       [] {
         return matmul(ones({2, 3, 4}), ones({4, 5}));
       }},
      {"matmul, transposed",
       [] {
         return matmul(ones({7, 4, 3}), ones({7, 5, 4}), true, true);
       }},
      {"linear",
       [] {
         return linear(ones({2, 3, 4}), ones({5, 4}));
       }},
      {"sum_of_outer_products",
       [] {
         return sum_of_outer_products(ones({2, 3, 4}), ones({2, 3, 5}));
       }},
      {"conv2d",
       [] {
         return conv2d(ones({2, 7, 6, 3}), ones({5, 3, 2, 3}));
       }},
      {"conv2d, grouped",
       [] {
         return conv2d(ones({2, 7, 6, 4}), ones({6, 3, 2, 2}), {}, grouped);
       }},
      {"conv2d_input_gradient",
       [] {
         return conv2d_input_gradient(ones({2, 3, 4, 6}), ones({6, 3, 2, 2}), {7, 6}, grouped);
       }},
      {"conv2d_filter_gradient",
       [] {
         return conv2d_filter_gradient(ones({2, 7, 6, 4}), ones({2, 3, 4, 6}), {3, 2}, grouped);
       }},
      {"conv_transpose2d",
       [] {
         return conv_transpose2d(ones({2, 3, 4, 6}), ones({6, 3, 2, 2}), {}, grouped);
       }},
  };
  return all;
}

// A layer of cells: products of the input, of the hidden state and of the projection in every step.
std::int64_t counted_rnn(const RnnInputs& in) {
  std::int64_t count = 0;
  for (Index step = 0; step < in.x.size(0); ++step)
    for (Index row = 0; row < in.x.size(1); ++row) {
      for (Index gate = 0; gate < in.weight_ih.size(0); ++gate) count += in.x.size(2) + in.weight_hh.size(1);
      if (in.weight_hr.defined()) count += in.weight_hr.numel();
    }
  return count;
}

Stated stated_rnn(RnnCell cell, Index gates, Index projected, std::int64_t& counted) {
  constexpr Index kSteps = 3, kRows = 2, kIn = 4, kUnits = 5;
  const Index outputs = projected > 0 ? projected : kUnits;
  const RnnInputs in{.x = ones({kSteps, kRows, kIn}),
                     .h0 = {},
                     .c0 = {},
                     .weight_ih = ones({gates * kUnits, kIn}),
                     .weight_hh = ones({gates * kUnits, outputs}),
                     .bias_ih = {},
                     .bias_hh = {},
                     .weight_hr = projected > 0 ? ones({projected, kUnits}) : Tensor()};
  counted = counted_rnn(in);
  return Stated([&] {
    rnn_layer(in.x, {}, {in.weight_ih, in.weight_hh, {}, {}, in.weight_hr}, {.cell = cell});
  });
}

}  // namespace

TEST_CASE("multiply-adds of products are as many as products of ones add up to", "[ops][traits]") {
  for (const auto& [name, run] : products_of_ones()) {
    INFO(name);
    const Stated stated(run);
    CHECK(stated.multiply_adds > 0);
    CHECK(static_cast<double>(stated.multiply_adds) == stated.sum);
  }
  // Taps on padding count: a kernel of nine at each of 5×5 places.
  const Stated padded([] { conv2d(ones({1, 5, 5, 2}), ones({3, 3, 3, 2}), {}, {.padding = {1, 1}}); });
  CHECK(padded.multiply_adds == 25 * 3 * 9 * 2);
}

TEST_CASE("multiply-adds of cells and of attention are those of loops", "[ops][traits]") {
  const std::tuple<RnnCell, Index, Index> cells[] = {
      {RnnCell::lstm, 4, 0}, {RnnCell::lstm, 4, 3}, {RnnCell::gru, 3, 0}, {RnnCell::rnn_tanh, 1, 0}};
  for (const auto& [cell, gates, projected] : cells) {
    std::int64_t counted = 0;
    const Stated stated = stated_rnn(cell, gates, projected, counted);
    CHECK(stated.multiply_adds == counted);
  }
  constexpr Index kQueries = 3, kKeys = 4, kRows = 2, kFeatures = 5, kValues = 6;
  const Stated additive([] {
    additive_attention(ones({kQueries, kRows, kFeatures}), ones({kKeys, kRows, kFeatures}),
                       ones({kKeys, kRows, kValues}), {ones({kFeatures}), {}, {}});
  });
  std::int64_t counted = 0;
  for (Index pair = 0; pair < kRows * kQueries * kKeys; ++pair) counted += kFeatures + kValues;
  CHECK(additive.multiply_adds == counted);
  // Two heads of three columns.
  const Stated scaled([] {
    scaled_dot_product_attention(ones({kRows, 2, kQueries, 3}), ones({kRows, 2, kKeys, 3}),
                                 ones({kRows, 2, kKeys, 3}));
  });
  CHECK(scaled.multiply_adds == 2 * kRows * 2 * kQueries * kKeys * 3);
}

TEST_CASE("multiply-adds of a chunked loss are those of its layer", "[ops][traits]") {
  const Tensor words = Tensor::zeros({2, 3}, {.dtype = DType::i64});
  const Stated loss([&] { linear_cross_entropy(ones({2, 3, 4}), ones({5, 4}), words); });
  CHECK(loss.multiply_adds == 2 * 3 * 4 * 5);
}

TEST_CASE("all products are counted", "[ops][traits]") {
  std::set<std::string> counted{
      "lstm", "gru", "rnn", "additive_attention", "attention", "linear_cross_entropy"},
      stated;
  for (const auto& [name, run] : products_of_ones()) counted.merge(Stated(run).ops);
  for (const OpInfo* info : all_op_infos())
    if (info->traits.products) stated.insert(info->name);
  CHECK(stated == counted);
}

TEST_CASE("every op of the tree says what it is", "[ops][traits]") {
  for (const OpInfo* info : all_op_infos()) {
    INFO(info->name);
    CHECK(info->traits.kind != OpKind::other);
    CHECK(std::string(family_of(info->traits)) != "other");
  }
  for (const Row& row : all_rows()) {
    INFO(to_string(row));
    const std::string family = family_of(find_op(row.op)->traits);
    CHECK(family == (std::string(row.op) == "cast" ? "cast" : row.family));
  }
}

TEST_CASE("results that stay wide are those of the rows", "[ops][traits]") {
  for (const Row& row : all_rows()) {
    if (!row.wide_output) continue;
    INFO(to_string(row));
    CHECK(find_op(row.op)->traits.is_wide(*row.wide_output));
  }
}

namespace {

// Magnitudes of all inputs and outputs of calls of one op.
class Magnitudes final : public OpObserver {
 public:
  explicit Magnitudes(const char* op) : op_(op) {}
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (std::string(info.name) != op_) return;
    add(read, inputs);
    add(written, outputs);
  }
  std::set<double> read, written;

 private:
  static void add(std::set<double>& set, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors)
      if (tensor.defined() && is_floating(tensor.dtype()))
        for (const double value : tensor.to_vector<double>()) set.insert(std::abs(value));
  }
  const char* op_;
};

}  // namespace

TEST_CASE("ops that keep values give values of their inputs", "[ops][traits]") {
  for (const Row& row : all_rows()) {
    const OpKind kind = find_op(row.op)->traits.kind;
    if (!keeps_values(kind)) continue;
    INFO(to_string(row));
    Magnitudes magnitudes(row.op);
    {
      const ObserverScope observed(magnitudes);
      row.run(make_inputs(row, row.cases.front(), DType::f32));
    }
    for (const double value : magnitudes.read) magnitudes.written.erase(value);
    // A constant around, or where values are folded: 0, and the 6 of relu6.
    const std::size_t constants = kind == OpKind::folds ? 2 : kind == OpKind::pads ? 1 : 0;
    CHECK(magnitudes.written.size() <= constants);
  }
}
