// Rows of autograd/ops/norm.h, and the running statistics that batch norm writes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/norm.h"
#include "core/random.h"
#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

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

// x/√(mean x² + eps) over the last axis, times gamma.
Array scaled_to_one(const Array& x, const Array* gamma, double eps) {
  Array y = x;
  const Index width = x.shape.at(-1);
  for (std::size_t row = 0; row * static_cast<std::size_t>(width) < x.values.size(); ++row) {
    double* const values = y.values.data() + row * static_cast<std::size_t>(width);
    double squares = 0.0;
    for (Index i = 0; i < width; ++i) squares += values[i] * values[i];
    for (Index i = 0; i < width; ++i)
      values[i] *= (gamma ? (*gamma)(i) : 1.0) / std::sqrt(squares / static_cast<double>(width) + eps);
  }
  return y;
}

Rows rms_norm_rows() {
  const Draw parameter{.low = 0.5, .high = 1.5, .parameter = true};
  return {{.op = "rms_norm",
           .run = RUN(rms_norm(x[0], x[1])),
           .oracle = [](const Arrays& x) { return scaled_to_one(x[0], &x[1], 1e-5); },
           .cases = {{{4, 5}, {5}}, {{2, 3, 4}, {4}}, {{0, 5}, {5}}, {{67, 301}, {301}}, {{9, 64}, {64}}},
           .draws = {{}, parameter},
           .slack = 2.0,  // relative to a root that is itself rounded
           .refusals = {{"[rms_norm] gamma must be floating and of shape [3], got f32[4]",
                         CALL(rms_norm(zeros({2, 3}), zeros({4})))},
                        {"[rms_norm] x must be floating with at least 1 axes",
                         CALL(rms_norm(Tensor::scalar(1.0, {.device = test_device()}), {}))}}},
          {.op = "rms_norm",
           .variant = "bare",
           .run = RUN(rms_norm(x[0], {}, 1e-3)),
           .oracle = [](const Arrays& x) { return scaled_to_one(x[0], nullptr, 1e-3); },
           .cases = {{{4, 5}}, {{3, 8}}},
           .slack = 2.0}};  // the same
}

constexpr std::uint64_t kResidualSeed = 23;

ResidualNormResult residual(const TensorList& x, const ResidualNormOptions& options) {
  const RandomScope scope(kResidualSeed, /*step=*/2, /*micro_batch=*/0);
  return residual_norm(x[0], x[1], x[2], options.rms ? Tensor() : x[3], options);
}

// x + dropout(branch): element i is kept where word i % 4 of block i / 4 is at least p·2³².
Array residual_sum(const Arrays& x, double p) {
  const RandomKey key{
      .seed = kResidualSeed, .purpose = RandomPurpose::dropout, .call = 0, .step = 2, .micro_batch = 0};
  Array sum = x[0];
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    const std::uint32_t word = philox(key, static_cast<std::uint32_t>(i / 4))[i % 4];
    sum.values[i] += word >= p * 0x1p32 ? x[1].values[i] / (1 - p) : 0.0;
  }
  return sum;
}

Array normed_sum(const Arrays& x, const ResidualNormOptions& options) {
  const Array sum = residual_sum(x, options.dropout);
  if (options.rms) return scaled_to_one(sum, &x[2], options.eps);
  Array y = normalised(sum, options.eps, [](const Indices& i) { return Indices(i.begin(), i.end() - 1); });
  for_each_index(y.shape, [&](const Indices& i) { y.at(i) = y.at(i) * x[2](i.back()) + x[3](i.back()); });
  return y;
}

// Rows of the sum alone, of the norm alone, and of both, so that gradients of each meet.
Rows residual_norm_rows() {
  const std::pair<const char*, ResidualNormOptions> forms[] = {
      {"layer norm", {}},
      {"layer norm, dropout", {.dropout = 0.3}},
      {"RMS norm, dropout", {.eps = 1e-3, .rms = true, .dropout = 0.25}},
      {"RMS norm", {.rms = true}}};
  const Draw parameter{.low = 0.5, .high = 1.5, .parameter = true};
  Rows rows;
  for (const auto& [name, options] : forms) {
    std::vector<Shapes> cases;
    for (const Shape& shape : {Shape{4, 5}, {2, 3, 4}, {0, 5}, {67, 301}, {9, 64}, {3, 1040}}) {
      const Shape width{shape.at(-1)};
      cases.push_back({shape, shape, width});
      if (!options.rms) cases.back().push_back(width);
    }
    const auto row = [&, &shared = options, variant = std::string(name)](const char* part, auto run,
                                                                         auto oracle) {
      const ResidualNormOptions form = shared;
      rows.push_back({.op = "residual_norm",
                      .variant = variant + ", " + part,
                      .run = [=](const TensorList& x) { return run(residual(x, form)); },
                      .oracle = [=](const Arrays& x) { return oracle(x, form); },
                      .cases = cases,
                      .draws = {{.parameter = true}, {}, parameter, parameter},
                      .wide_output = 0,
                      .normalised = true,  // sums of both results may cancel
                      .slack = 2.0});      // relative to a deviation that is itself rounded
    };
    row(
        "normed", [](const ResidualNormResult& y) { return y.normed; }, normed_sum);
    row(
        "sum", [](const ResidualNormResult& y) { return cast(y.sum, y.normed.dtype()); },
        [](const Arrays& x, const ResidualNormOptions& form) { return residual_sum(x, form.dropout); });
    row(
        "both", [](const ResidualNormResult& y) { return add(cast(y.sum, y.normed.dtype()), y.normed); },
        [](const Arrays& x, const ResidualNormOptions& form) {
          Array y = residual_sum(x, form.dropout);
          const Array normed = normed_sum(x, form);
          for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += normed.values[i];
          return y;
        });
  }
  rows[0].refusals = {
      {"[residual_norm] branch must be floating and like x f32[2,3], got f32[3,3]",
       CALL(residual_norm(zeros({2, 3}), zeros({3, 3}), {}))},
      {"[residual_norm] RMS norm has no beta, got f32[3]; leave it out, or use layer norm",
       CALL(residual_norm(zeros({2, 3}), zeros({2, 3}), zeros({3}), zeros({3}), {.rms = true}))},
      {"[residual_norm] the probability must lie in [0,1), got 1",
       CALL(residual_norm(zeros({2, 3}), zeros({2, 3}), zeros({3}), zeros({3}), {.dropout = 1.0}))}};
  return rows;
}

}  // namespace

Rows tandem::test::norm_rows() {
  Rows rows;
  for (Rows (*part)() :
       {batch_norm_rows, layer_norm_rows, rms_norm_rows, residual_norm_rows, group_norm_rows}) {
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

namespace {

void check_values(const Tensor& y, const std::vector<double>& expected) {
  const std::vector<double> got = y.to_vector<double>();
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(2e-6));
}

}  // namespace

// PyTorch 2.11's layer_norm and rms_norm in FP64.
TEST_CASE("row norms of known values", "[ops][norm]") {
  const Tensor x = tensor_of({1, 2, 3, 6}, {1, 4}, DType::f64);
  check_values(layer_norm(x, {}, {}), {-1.069043, -0.534522, 0.0, 1.603565});
  check_values(layer_norm(x * 1e-3, {}, {}), {-0.544331, -0.272166, 0.0, 0.816497});
  check_values(layer_norm(x * 1e-3, {}, {}, 1, 1e-12), {-1.069045, -0.534522, 0.0, 1.603567});
  check_values(rms_norm(x, {}), {0.282843, 0.565685, 0.848528, 1.697056});
  const Tensor half = x * 0.5;
  check_values(residual_norm(half, half, {}).normed, {-1.069043, -0.534522, 0.0, 1.603565});
  check_values(residual_norm(half, half, {}, {}, {.rms = true}).normed,
               {0.282843, 0.565685, 0.848528, 1.697056});
}

TEST_CASE("a residual norm is dropout, sum and norm", "[ops][norm]") {
  const auto drawn = [](const Shape& shape, DType dtype, std::uint64_t seed) {
    return random_tensor(shape, dtype, seed, -2.0, 2.0);
  };
  const Shape shape{5, 37}, width{37};  // rows begin within a block of four random numbers
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    for (const bool rms : {false, true}) {
      const Tensor x = drawn(shape, wide_of(dtype), 1), branch = drawn(shape, dtype, 2);
      const Tensor gamma = drawn(width, wide_of(dtype), 3),
                   beta = rms ? Tensor() : drawn(width, wide_of(dtype), 4);
      const ResidualNormOptions options{.rms = rms, .dropout = 0.3};
      const auto run = [&] {
        const RandomScope scope(5, /*step=*/1, /*micro_batch=*/0);
        return residual_norm(x, branch, gamma, beta, options);
      };
      const ResidualNormResult fused = run();
      const HigherOrder composition;
      const ResidualNormResult composed = run();
      CHECK(fused.sum.dtype() == wide_of(dtype));
      CHECK(fused.normed.dtype() == dtype);
      CHECK(composed.sum.dtype() == wide_of(dtype));
      CHECK(composed.normed.dtype() == dtype);
      // Composed dropout rounds to 16 bits before the sum.
      const double error = dtype == DType::f64 ? 1e-14 : is_16bit(dtype) ? 4e-3 : 1e-6;
      CHECK(normalised_error(fused.sum.to_vector<double>(), composed.sum.to_vector<double>()) < error);
      CHECK(normalised_error(fused.normed.to_vector<double>(), composed.normed.to_vector<double>()) < error);
    }
  }
}

TEST_CASE("a residual norm without dropout has the bits of sum and norm", "[ops][norm]") {
  const Shape shape{6, 48}, width{48};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor(shape, dtype, 1, -2.0, 2.0),
                 branch = random_tensor(shape, dtype, 2, -2.0, 2.0);
    const Tensor gamma = random_tensor(width, DType::f32, 3, 0.5, 1.5),
                 beta = random_tensor(width, DType::f32, 4, 0.5, 1.5);
    const ResidualNormResult y = residual_norm(x, branch, gamma, beta, {.dropout = 0.4, .training = false});
    const Tensor sum = add(x, branch);
    CHECK(y.sum.to_vector<double>() == sum.to_vector<double>());
    CHECK(y.normed.to_vector<double>() == layer_norm(sum, gamma, beta).to_vector<double>());
    const Tensor scaled = residual_norm(x, branch, gamma, {}, {.rms = true}).normed;
    CHECK(scaled.to_vector<double>() == rms_norm(sum, gamma).to_vector<double>());
  }
}

TEST_CASE("a residual norm can give the type of its sum", "[ops][norm]") {
  const Shape shape{4, 24};
  const auto run = [&](DType dtype, bool wide) {
    const Tensor x = leaf(random_tensor(shape, wide_of(dtype), 1)),
                 branch = leaf(random_tensor(shape, dtype, 2));
    const RandomScope scope(3, /*step=*/0, /*micro_batch=*/0);
    const ResidualNormResult y = residual_norm(x, branch, {}, {}, {.dropout = 0.2, .wide = wide});
    const Tensor outputs[] = {y.sum, y.normed}, wanted[] = {x, branch};
    const Tensor dy[] = {random_tensor(shape, y.sum.dtype(), 5), random_tensor(shape, y.normed.dtype(), 6)};
    TensorList results{y.sum, y.normed};
    for (const Tensor& gradient : gradients(outputs, dy, wanted)) results.push_back(gradient);
    return results;
  };
  const TensorList narrow = run(DType::bf16, false), wide = run(DType::bf16, true);
  CHECK(narrow[1].dtype() == DType::bf16);
  CHECK(wide[1].dtype() == DType::f32);
  CHECK(wide[3].dtype() == DType::bf16);
  for (std::size_t i = 0; i < wide.size(); ++i)
    CHECK(normalised_error(narrow[i].to_vector<double>(), wide[i].to_vector<double>()) < 8e-3);
}
