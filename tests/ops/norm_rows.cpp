// Rows of autograd/ops/norm.h, and the running statistics that batch norm writes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>

#include "autograd/modes.h"
#include "autograd/ops/norm.h"
#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// (x - mean)/√(var + eps) within groups of elements that share group(index); two-pass, in f64.
template <class Group>
Array normalised(const Array& x, double eps, Group&& group) {
  std::map<Indices, std::vector<double>> members;
  for_each_index(x.shape, [&](const Indices& i) { members[group(i)].push_back(x.at(i)); });
  std::map<Indices, std::pair<double, double>> moments;
  for (const auto& [key, values] : members) {
    double mean = 0.0, var = 0.0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values) var += (v - mean) * (v - mean) / static_cast<double>(values.size());
    moments[key] = {mean, var};
  }
  Array y(x.shape);
  for_each_index(x.shape, [&](const Indices& i) {
    const auto& [mean, var] = moments[group(i)];
    y.at(i) = (x.at(i) - mean) / std::sqrt(var + eps);
  });
  return y;
}

struct Form {
  const char* name;
  bool affine, residual, relu;
};
const Form kForms[] = {{"plain", true, false, false},
                       {"bare", false, false, false},
                       {"relu", true, false, true},
                       {"residual", true, true, false},
                       {"residual and relu", true, true, true},
                       {"bare relu", false, false, true}};

// The inputs of a form are x, gamma, beta, residual, as far as it has them.
Array finished(Array y, const Arrays& x, const Form& form) {
  for_each_index(y.shape, [&](const Indices& i) {
    double& v = y.at(i);
    if (form.affine) v = v * x[1](i.back()) + x[2](i.back());
    if (form.residual) v += x[3].at(i);
    if (form.relu) v = std::max(v, 0.0);
  });
  return y;
}

std::vector<Shapes> cases_of(const Form& form, std::initializer_list<Shape> images) {
  std::vector<Shapes> cases;
  for (const Shape& image : images) {
    Shapes shapes{image};
    const Shape channels{image.at(-1)};
    if (form.affine) shapes.insert(shapes.end(), {channels, channels});
    if (form.residual) shapes.push_back(image);
    cases.push_back(shapes);
  }
  return cases;
}

std::vector<Draw> draws_of(const Form& form) {
  const Draw parameter{.low = 0.5, .high = 1.5, .parameter = true};
  if (!form.affine) return {{}};
  return {{}, parameter, parameter, {}};
}

// Statistics that evaluation reads: mean c/10, variance (5+c)/10, in f64 where x is.
BatchNormStatistics statistics_for(const Tensor& x) {
  std::vector<double> mean, var;
  const Index channels = x.defined() ? x.size(-1) : 1;
  for (Index c = 0; c < channels; ++c) {
    mean.push_back(0.1 * static_cast<double>(c));
    var.push_back(0.5 + 0.1 * static_cast<double>(c));
  }
  const DType dtype = x.defined() && x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {
      beside(x, tensor_of(mean, {channels}, dtype)), beside(x, tensor_of(var, {channels}, dtype)), {}, {}};
}

Rows batch_norm_rows() {
  Rows rows;
  for (const Form& form : kForms) {
    const auto argument = [](const TensorList& x, std::size_t i, bool present) {
      return present ? x[i] : Tensor{};
    };
    const BatchNormOptions options{.eps = 1e-3, .relu = form.relu};
    rows.push_back(
        {.op = "batch_norm_train",
         .variant = form.name,
         .run =
             [=](const TensorList& x) {
               return batch_norm_train(x[0], argument(x, 1, form.affine), argument(x, 2, form.affine), {},
                                       options, argument(x, 3, form.residual));
             },
         .oracle =
             [=](const Arrays& x) {
               return finished(normalised(x[0], 1e-3, [](const Indices& i) { return Indices{i.back()}; }), x,
                               form);
             },
         .cases = cases_of(form, {{5, 3}, {2, 3, 2, 2}, {6, 1}, {4, 0}, {3, 7, 5, 33}, {8, 9, 7, 16}}),
         .draws = draws_of(form),
         // Both are relative to a deviation that is itself rounded.
         .slack = 2.0});
    rows.push_back({.op = "batch_norm_infer",
                    .variant = form.name,
                    .run =
                        [=](const TensorList& x) {
                          return batch_norm_infer(x[0], argument(x, 1, form.affine),
                                                  argument(x, 2, form.affine), statistics_for(x[0]), options,
                                                  argument(x, 3, form.residual));
                        },
                    .oracle =
                        [=](const Arrays& x) {
                          Array y(x[0].shape);
                          for_each_index(y.shape, [&](const Indices& i) {
                            const auto c = static_cast<double>(i.back());
                            y.at(i) = (x[0].at(i) - 0.1 * c) / std::sqrt(0.5 + 0.1 * c + 1e-3);
                          });
                          return finished(y, x, form);
                        },
                    .cases = cases_of(form, {{5, 3}, {2, 3, 2, 2}, {1, 1}, {0, 3}, {3, 7, 5, 33}}),
                    .draws = draws_of(form)});
  }
  rows[0].refusals = {
      {"[batch_norm_train] f32[1,3] has 1 value(s) per channel, statistics need at least 2",
       CALL(batch_norm_train(zeros({1, 3}), {}, {}, {}))},
      {"[batch_norm_train] gamma must be a floating vector of 3 elements, one for each channel, got f32[4]",
       CALL(batch_norm_train(zeros({2, 3}), zeros({4}), {}, {}))},
      {"[batch_norm_train] residual f32[3,3] must be like x f32[2,3]",
       CALL(batch_norm_train(zeros({2, 3}), {}, {}, {}, {}, zeros({3, 3})))},
      {"[batch_norm_train] x must be floating and channels-last, got i32[2,3]",
       CALL(batch_norm_train(Tensor::zeros({2, 3}, {.dtype = DType::i32, .device = test_device()}), {}, {},
                             {}))}};
  rows[1].refusals = {{"[batch_norm_infer] running statistics are absent",
                       CALL(batch_norm_infer(zeros({2, 3}), {}, {}, {}))}};
  return rows;
}

Rows layer_norm_rows() {
  Rows rows;
  for (const int axes : {1, 2}) {
    const auto oracle = [axes](const Arrays& x) {
      const auto rest = static_cast<std::size_t>(x[0].shape.rank() - axes);
      Array y = normalised(x[0], 1e-5, [rest](const Indices& i) {
        return Indices(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(rest));
      });
      if (x.size() == 1) return y;
      for_each_index(y.shape, [&](const Indices& i) {
        const Indices tail(i.begin() + static_cast<std::ptrdiff_t>(rest), i.end());
        y.at(i) = y.at(i) * x[1].at(tail) + x[2].at(tail);
      });
      return y;
    };
    std::vector<Shapes> cases = {
        {{4, 5}, {5}, {5}}, {{2, 3, 4}, {4}, {4}}, {{0, 5}, {5}, {5}}, {{67, 301}, {301}, {301}}};
    if (axes == 2)
      cases = {{{2, 3, 4}, {3, 4}, {3, 4}}, {{3, 4}, {3, 4}, {3, 4}}, {{7, 5, 33}, {5, 33}, {5, 33}}};
    std::vector<Shapes> bare;
    for (const Shapes& shapes : cases) bare.push_back({shapes[0]});
    const Draw parameter{.low = 0.5, .high = 1.5, .parameter = true};
    rows.push_back({.op = "layer_norm",
                    .variant = std::to_string(axes) + " axes",
                    .run = [axes](const TensorList& x) { return layer_norm(x[0], x[1], x[2], axes); },
                    .oracle = oracle,
                    .cases = cases,
                    .draws = {{}, parameter, parameter},
                    .slack = 2.0});  // relative to a deviation that is itself rounded
    rows.push_back({.op = "layer_norm",
                    .variant = std::to_string(axes) + " axes, bare",
                    .run = [axes](const TensorList& x) { return layer_norm(x[0], {}, {}, axes); },
                    .oracle = oracle,
                    .cases = bare,
                    .slack = 2.0});  // the same
  }
  rows[0].refusals = {
      {"[layer_norm] f32[2,3] has no last 3 axes", CALL(layer_norm(zeros({2, 3}), {}, {}, 3))},
      {"must be floating and of shape [3], got f32[4]", CALL(layer_norm(zeros({2, 3}), zeros({4}), {}))}};
  return rows;
}

Rows group_norm_rows() {
  Rows rows;
  for (const Index groups : {1, 2, 4}) {
    const auto oracle = [groups](const Arrays& x) {
      const Index width = x[0].shape.at(-1) / groups;
      Array y = normalised(x[0], 1e-5, [width](const Indices& i) { return Indices{i[0], i.back() / width}; });
      return finished(y, x, {"", x.size() > 1, false, false});
    };
    const Draw parameter{.low = 0.5, .high = 1.5, .parameter = true};
    rows.push_back({.op = "group_norm",
                    .variant = std::to_string(groups) + " groups",
                    .run = [groups](const TensorList& x) { return group_norm(x[0], x[1], x[2], groups); },
                    .oracle = oracle,
                    .cases = {{{2, 3, 4}, {4}, {4}},
                              {{2, 2, 3, 4}, {4}, {4}},
                              {{0, 3, 4}, {4}, {4}},
                              {{3, 5, 7, 64}, {64}, {64}}},
                    .draws = {{}, parameter, parameter},
                    .slack = 2.0});  // relative to a deviation that is itself rounded
  }
  rows.push_back(
      {.op = "group_norm",
       .variant = "bare",
       .run = RUN(group_norm(x[0], {}, {}, 2)),
       .oracle =
           [](const Arrays& x) {
             return normalised(x[0], 1e-5, [&](const Indices& i) { return Indices{i[0], i.back() / 2}; });
           },
       .cases = {{{2, 3, 4}}},
       .slack = 2.0});  // the same
  rows[0].refusals = {{"[group_norm] 3 groups do not divide the 4 channels of f32[2,4]",
                       CALL(group_norm(zeros({2, 4}), {}, {}, 3))},
                      {"must be floating and of shape [4], got f32[3]",
                       CALL(group_norm(zeros({2, 3, 4}), zeros({3}), {}, 2))}};
  return rows;
}

}  // namespace

Rows tandem::test::norm_rows() {
  Rows rows;
  for (Rows (*part)() : {batch_norm_rows, layer_norm_rows, group_norm_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("training writes the shadow statistics and leaves the live ones", "[ops][norm]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool relu : {false, true}) {
      const Tensor x = tensor_of({1, 10, 2, 20, 3, 30, 6, 60}, {4, 2}, dtype);
      const BatchNormStatistics s{floats({1, 2}, {2}), floats({3, 4}, {2}), zeros({2}), zeros({2})};
      std::optional<HigherOrder> composed;  // the composition writes the same
      if (dtype == DType::f32 && relu) composed.emplace();
      batch_norm_train(x, {}, {}, s, {.momentum = 0.25, .relu = relu});
      // Batch means 3 and 30; unbiased variances 14/3 and 1400/3.
      CHECK(s.next_mean.to_vector<double>()[0] == Approx(0.75 * 1 + 0.25 * 3));
      CHECK(s.next_mean.to_vector<double>()[1] == Approx(0.75 * 2 + 0.25 * 30));
      CHECK(s.next_var.to_vector<double>()[0] == Approx(0.75 * 3 + 0.25 * 14 / 3));
      CHECK(s.next_var.to_vector<double>()[1] == Approx(0.75 * 4 + 0.25 * 1400 / 3));
      CHECK(s.mean.to_vector<double>() == std::vector<double>{1, 2});
      CHECK(s.var.to_vector<double>() == std::vector<double>{3, 4});
    }
  }
}

TEST_CASE("batch statistics of large numbers do not cancel", "[ops][norm]") {
  std::vector<double> values(2048);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 10000.0 + (i % 2 ? 0.5 : -0.5);
  const Tensor x = tensor_of(values, {2048, 1}, DType::f32);
  const auto y = batch_norm_train(x, {}, {}, {}, {.eps = 0.0}).to_vector<double>();
  CHECK(y[0] == Approx(-1.0).epsilon(1e-4));
  CHECK(y[1] == Approx(1.0).epsilon(1e-4));
  const auto z = layer_norm(x.viewed({1, 2048}), {}, {}, 1, 0.0).to_vector<double>();
  CHECK(z[0] == Approx(-1.0).epsilon(1e-4));
}

TEST_CASE("shadow statistics without live ones are refused", "[ops][norm]") {
  CHECK_FAILS(UserError, batch_norm_train(zeros({2, 3}), {}, {}, {{}, {}, zeros({3}), zeros({3})}),
              "next statistics need the live ones");
}
