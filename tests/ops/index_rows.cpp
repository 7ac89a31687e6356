// Rows of autograd/ops/index.h.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "autograd/apply.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index_ops.h"
#include "autograd/ops/reduce.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }
Tensor index_of(std::vector<std::int64_t> values) {
  const auto count = static_cast<Index>(values.size());
  return Tensor::from(values, {count}, test_device());
}

Array looked_up(const Arrays& x) {
  Array y(x[1].shape.inserted(x[1].shape.rank(), x[0].shape[1]));
  for_each_index(y.shape, [&](const Indices& i) {
    y.at(i) = x[0](static_cast<Index>(x[1].at(Indices(i.begin(), i.end() - 1))), i.back());
  });
  return y;
}

Array selected(const Array& x, const Array& index, int axis) {
  return fetched(x, x.shape.with(axis, index.shape[0]), [&](const Indices& i) {
    Indices j = i;
    j[at(axis)] = static_cast<Index>(index(i[at(axis)]));
    return j;
  });
}

Array gathered(const Array& x, const Array& index, int axis) {
  return fetched(x, index.shape, [&](const Indices& i) {
    Indices j = i;
    j[at(axis)] = static_cast<Index>(index.at(i));
    return j;
  });
}

Rows embedding_rows() {
  const std::vector<Shapes> cases = {{{6, 3}, {4}}, {{6, 3}, {2, 3}}, {{6, 1}, {}},
                                     {{6, 3}, {0}}, {{6, 0}, {4}},    {{301, 33}, {67}}};
  const Draw index = index_below(6);
  return {
      {.op = "embedding",
       .run = RUN(embedding(x[0], x[1])),
       .oracle = looked_up,
       .cases = cases,
       .draws = {{}, index},
       .refusals = {{"[embedding] the table must be floating [V,D], got f32[6]",
                     CALL(embedding(zeros({6}), index_of({0})))},
                    {"[embedding] the index must be i64 or i32, got f32[2]",
                     CALL(embedding(zeros({6, 2}), zeros({2})))},
                    {"[embedding]", CALL(embedding(zeros({6, 2}), index_of({0, 6})))},
                    {"[embedding]", CALL(embedding(zeros({6, 2}), index_of({-1})))},
                    {"[embedding] padding index 6 lies outside [0,6)",
                     CALL(embedding(zeros({6, 2}), index_of({0}), 6))}}},
      {.op = "index_add",
       .run = RUN(apply(ops::IndexAdd{0, {6, 3}, x[0].dtype(), {}}, {x[0], x[1]}).y),
       .oracle =
           [](const Arrays& x) {
             return adjoint([&](const Array& table) { return looked_up({table, x[1]}); }, {6, 3}, x[0]);
           },
       .cases = {{{4, 3}, {4}}, {{2, 3, 3}, {2, 3}}, {{0, 3}, {0}}},
       .draws = {{}, index}},
      {.op = "index_add",
       .variant = "skipping 2",
       .run = RUN(apply(ops::IndexAdd{0, {6, 3}, x[0].dtype(), 2}, {x[0], x[1]}).y),
       .oracle =
           [](const Arrays& x) {
             Array dx = adjoint([&](const Array& table) { return looked_up({table, x[1]}); }, {6, 3}, x[0]);
             for (Index c = 0; c < 3; ++c) dx(2, c) = 0.0;
             return dx;
           },
       .cases = {{{7, 3}, {7}}, {{2, 3, 3}, {2, 3}}},
       .draws = {{}, {.low = 2, .high = 3, .whole = true, .dtype = DType::i64}}}};
}

Rows selecting_rows() {
  Rows rows;
  for (const int axis : {0, 1, 2}) {
    const std::string variant = "axis " + std::to_string(axis);
    const Shape shape{3, 4, 5};
    Shape wide{3, 4, 5};
    wide = wide.with(axis, 7);
    rows.push_back({.op = "index_select",
                    .variant = variant,
                    .run = [axis](const TensorList& x) { return index_select(x[0], x[1], axis); },
                    .oracle = [axis](const Arrays& x) { return selected(x[0], x[1], axis); },
                    .cases = {{shape, {2}}, {shape, {6}}, {shape, {0}}, {{17, 13, 19}, {40}}},
                    .draws = {{}, index_below(3)},
                    .integers = true});
    rows.push_back({.op = "gather",
                    .variant = variant,
                    .run = [axis](const TensorList& x) { return gather(x[0], x[1], axis); },
                    .oracle = [axis](const Arrays& x) { return gathered(x[0], x[1], axis); },
                    .cases = {{shape, shape},
                              {shape, {2, 2, 3}},
                              {shape, wide},
                              {shape, shape.with(axis, 0)},
                              {{17, 13, 19}, {17, 13, 19}}},
                    .draws = {{}, index_below(3)},
                    .integers = true});
    rows.push_back({.op = "scatter_add",
                    .variant = variant,
                    .run = [axis](const TensorList& x) { return scatter_add(x[0], x[1], x[2], axis); },
                    .oracle =
                        [axis](const Arrays& x) {
                          Array y = x[0];
                          for_each_index(x[1].shape, [&](const Indices& i) {
                            Indices j = i;
                            j[at(axis)] = static_cast<Index>(x[1].at(i));
                            y.at(j) += x[2].at(i);
                          });
                          return y;
                        },
                    .cases = {{{3, 4, 3}, {3, 4, 3}, {3, 4, 3}},
                              {shape, {2, 2, 3}, {2, 2, 3}},
                              {shape, wide, wide},
                              {shape, shape.with(axis, 0), shape.with(axis, 0)}},
                    .draws = {{}, index_below(3), {}}});
  }
  rows[0].refusals = {
      {"[index_select] the index must be [K], got i64[1,2]",
       CALL(index_select(zeros({3, 2}), Tensor::zeros({1, 2}, {.dtype = DType::i64, .device = test_device()}),
                         0))},
      {"[index_select]", CALL(index_select(zeros({3, 2}), index_of({3}), 0))},
      {"[index_select] axis 2 is out of range", CALL(index_select(zeros({3, 2}), index_of({0}), 2))}};
  rows[1].refusals = {
      {"[gather] index i64[2] and tensor f32[3,2] must have the same number of axes",
       CALL(gather(zeros({3, 2}), index_of({0, 1}), 0))},
      {"[gather] index i64[1,3] is larger than f32[3,2] on axis 1",
       CALL(gather(zeros({3, 2}), Tensor::zeros({1, 3}, {.dtype = DType::i64, .device = test_device()}), 0))},
      {"[gather]", CALL(gather(zeros({3}), index_of({5}), 0))}};
  rows[2].refusals = {{"[scatter_add] index i64[2] and source f32[3] must have the same shape",
                       CALL(scatter_add(zeros({3}), index_of({0, 1}), zeros({3}), 0))},
                      {"[scatter_add]", CALL(scatter_add(zeros({3}), index_of({0, 3}), zeros({2}), 0))}};
  return rows;
}

Row one_hot_row() {
  return {.op = "one_hot",
          .run = RUN(one_hot(x[0], 5)),
          .oracle =
              [](const Arrays& x) {
                Array y(x[0].shape.inserted(x[0].shape.rank(), 5));
                for_each_index(x[0].shape, [&](const Indices& i) {
                  Indices j = i;
                  j.push_back(static_cast<Index>(x[0].at(i)));
                  y.at(j) = 1.0;
                });
                return y;
              },
          .cases = {{{4}}, {{2, 3}}, {{}}, {{0}}},
          .draws = {index_below(5)},
          .result = Result::f32,
          .gradient = false,
          .refusals = {
              {"[one_hot] the number of classes must be positive, got 0", CALL(one_hot(index_of({0}), 0))},
              {"[one_hot]", CALL(one_hot(index_of({0, 5}), 5))}}};
}

// Order of the values along an axis; stable. Values (which = 0) or positions of the first k.
Array ranked(const Array& x, int axis, Index k, bool descending, bool positions) {
  Array y(x.shape.with(axis, k));
  for_each_index(x.shape.with(axis, 1), [&](const Indices& row) {
    std::vector<Index> order(static_cast<std::size_t>(x.shape[axis]));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](Index n) {
      Indices i = row;
      i[at(axis)] = n;
      return x.at(i);
    };
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return descending ? value(a) > value(b) : value(a) < value(b);
    });
    for (Index n = 0; n < k; ++n) {
      Indices i = row;
      i[at(axis)] = n;
      const Index from = order[static_cast<std::size_t>(n)];
      y.at(i) = positions ? static_cast<double>(from) : value(from);
    }
  });
  return y;
}

Rows ranking_rows() {
  const Draw ties{.low = -3, .high = 3, .whole = true};
  const std::vector<Shapes> cases = {{{3, 4, 5}}, {{4, 6, 3}}, {{0, 4, 5}}, {{5, 41, 7}}};
  Rows rows;
  for (const bool largest : {true, false}) {
    for (const int axis : {-1, 1}) {
      const std::string variant =
          std::string(largest ? "largest" : "smallest") + " along " + std::to_string(axis);
      const int from = axis < 0 ? 2 : axis;
      for (const bool positions : {false, true}) {
        const std::string what = variant + (positions ? ", positions" : ", values");
        const auto pick = [positions](const ValuesAndIndices& both) {
          return positions ? both.indices : both.values;
        };
        Row row{.op = "topk",
                .variant = what,
                .run = [=](const TensorList& x) { return pick(topk(x[0], 3, axis, largest)); },
                .oracle = [=](const Arrays& x) { return ranked(x[0], from, 3, largest, positions); },
                .cases = cases,
                .draws = {positions ? ties : Draw{}},
                .result = positions ? Result::i64 : Result::same,
                .gradient = !positions,
                .integers = true};
        rows.push_back(row);
        row.op = "sort";
        row.run = [=](const TensorList& x) { return pick(sort(x[0], axis, largest)); };
        row.oracle = [=](const Arrays& x) {
          return ranked(x[0], from, x[0].shape[from], largest, positions);
        };
        rows.push_back(row);
      }
    }
  }
  rows[0].refusals = {
      {"[topk] k = 4 lies outside [0,3], the extent of axis 0 of f32[3]", CALL(topk(zeros({3}), 4))},
      {"[topk] axis 1 is out of range", CALL(topk(zeros({3}), 1, 1))}};
  rows[1].refusals = {{"[sort] axis 1 is out of range", CALL(sort(zeros({3}), 1))}};
  return rows;
}

}  // namespace

Rows tandem::test::index_rows() {
  Rows rows;
  for (Rows (*part)() : {embedding_rows, selecting_rows, ranking_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  rows.push_back(one_hot_row());
  return rows;
}

TEST_CASE("i32 indices do what i64 ones do", "[ops][index]") {
  const Tensor x = random_tensor({5, 3}), wide = index_of({4, 0, 2}), narrow = cast(wide, DType::i32);
  CHECK(index_select(x, narrow, 0).to_vector<double>() == index_select(x, wide, 0).to_vector<double>());
  CHECK(embedding(x, narrow).to_vector<double>() == embedding(x, wide).to_vector<double>());
  CHECK(one_hot(narrow, 5).to_vector<double>() == one_hot(wide, 5).to_vector<double>());
}

TEST_CASE("the padding row of an embedding receives no gradient", "[ops][index]") {
  const Tensor table = leaf(random_tensor({4, 2}));
  backward(sum(embedding(table, index_of({1, 2, 1, 3}), 1)));
  CHECK(gradient_of(table).to_vector<double>() == std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1});
  clear_gradient_of(table);
  backward(sum(embedding(table, index_of({1, 2, 1, 3}), -1)));  // from the end
  CHECK(gradient_of(table).to_vector<double>() == std::vector<double>{0, 0, 2, 2, 1, 1, 0, 0});
}

TEST_CASE("gradients of repeated indices are summed in f32", "[ops][index]") {
  // Added one at a time in BF16, ones stall at 256.
  const Tensor index = Tensor::zeros({1000}, {.dtype = DType::i64, .device = test_device()}),
               ones = Tensor::full({1000, 1}, 1.0, {.dtype = DType::bf16, .device = test_device()});
  const auto first_gradient = [&](const Run& run) {
    const Tensor x = leaf(tensor_of({1, 2}, {2, 1}, DType::bf16));
    const Tensor y = run({x});
    return gradients(std::span(&y, 1), std::span(&ones, 1), std::span(&x, 1))[0].to_vector<double>()[0];
  };
  CHECK(first_gradient([&](const TensorList& x) { return index_select(x[0], index, 0); }) == 1000.0);
  CHECK(first_gradient([&](const TensorList& x) { return embedding(x[0], index); }) == 1000.0);
  CHECK(first_gradient([&](const TensorList& x) {
          return gather(x[0], index.viewed({1000, 1}), 0);
        }) == 1000.0);
  const Tensor total = scatter_add(tensor_of({0, 0}, {2, 1}, DType::bf16), index.viewed({1000, 1}), ones, 0);
  CHECK(total.to_vector<double>()[0] == 1000.0);
}

TEST_CASE("NaN ranks as largest", "[ops][index]") {
  const Tensor x = floats({1, std::nanf(""), 3}, {3});
  CHECK(topk(x, 2).indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(sort(x).indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2, 1});
}
