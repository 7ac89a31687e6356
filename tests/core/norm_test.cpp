// Batch, layer and group norm against loops in double precision: every storage dtype, any number of channels,
// mixed dtypes, gradients that add, and statistics that do not cancel.
#include "core/kernels/norm.h"

#include <omp.h>

#include <catch2/catch.hpp>
#include <optional>

#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

using Values = std::vector<double>;

constexpr double kEps = 1e-5;

Tensor per_channel(Index channels, DType like, unsigned seed, double offset) {
  const DType dtype = like == DType::f64 ? DType::f64 : DType::f32;
  const Tensor t = normal_tensor(Shape{channels}, DType::f64, seed);
  for (Index c = 0; c < channels; ++c) t.data<double>()[c] = offset + 0.3 * t.data<double>()[c];
  const Tensor result = Tensor::empty(Shape{channels}, {.dtype = dtype});
  cpu::backend().cast(t, result, false);
  return result;
}

// The largest difference of means, in units of the spread around them.
double mean_error(const Values& a, const Values& b, const Values& rstd) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / (std::abs(b[i]) + 1.0 / rstd[i]));
  return worst;
}

struct Reference {
  Values y, mean, rstd, var, dx, dresidual, dgamma, dbeta;
  std::vector<bool> passes;
};

// Batch norm of x [rows, C] with residual, relu, and its gradient for dy.
Reference reference(const Values& x, const Values& residual, const Values& gamma, const Values& beta,
                    const Values& dy, Index channels, bool relu) {
  const auto rows = static_cast<Index>(x.size()) / channels;
  Reference r;
  r.y.resize(x.size());
  r.dx.resize(x.size());
  r.dresidual.resize(x.size());
  r.passes.resize(x.size());
  for (Index c = 0; c < channels; ++c) {
    long double sum = 0;
    for (Index i = 0; i < rows; ++i) sum += x[i * channels + c];
    const long double mean = sum / rows;
    long double squares = 0;
    for (Index i = 0; i < rows; ++i) squares += (x[i * channels + c] - mean) * (x[i * channels + c] - mean);
    const double var = static_cast<double>(squares / rows), rstd = 1.0 / std::sqrt(var + kEps);
    r.mean.push_back(static_cast<double>(mean));
    r.var.push_back(var);
    r.rstd.push_back(rstd);
    double dgamma = 0, dbeta = 0;
    for (Index i = 0; i < rows; ++i) {
      const std::size_t at = static_cast<std::size_t>(i * channels + c);
      const double normal = static_cast<double>(x[at] - mean) * rstd;
      const double v = normal * gamma[c] + beta[c] + (residual.empty() ? 0.0 : residual[at]);
      r.passes[at] = !relu || v > 0;
      r.y[at] = r.passes[at] ? v : 0.0;
      r.dresidual[at] = r.passes[at] ? dy[at] : 0.0;
      dgamma += r.dresidual[at] * normal;
      dbeta += r.dresidual[at];
    }
    r.dgamma.push_back(dgamma);
    r.dbeta.push_back(dbeta);
    for (Index i = 0; i < rows; ++i) {
      const std::size_t at = static_cast<std::size_t>(i * channels + c);
      const double normal = static_cast<double>(x[at] - mean) * rstd;
      r.dx[at] = gamma[c] * rstd * (r.dresidual[at] - dbeta / rows - normal * dgamma / rows);
    }
  }
  return r;
}

struct Case {
  Shape shape;
  DType dtype;
  bool relu, residual;
};

BatchNormForward forward_arguments(const Case& c) {
  const Index channels = c.shape.at(-1);
  const TensorOptions narrow{.dtype = c.dtype};
  const TensorOptions wide{.dtype = c.dtype == DType::f64 ? DType::f64 : DType::f32};
  BatchNormForward a;
  a.x = normal_tensor(c.shape, c.dtype, 1);
  if (c.residual) a.residual = normal_tensor(c.shape, c.dtype, 2);
  a.gamma = per_channel(channels, c.dtype, 3, 1.0);
  a.beta = per_channel(channels, c.dtype, 4, 0.1);
  a.y = Tensor::empty(c.shape, narrow);
  a.mean = Tensor::empty(Shape{channels}, wide);
  a.rstd = Tensor::empty(Shape{channels}, wide);
  if (c.relu) a.mask = Tensor::empty(Shape{(c.shape.numel() + 7) / 8}, {.dtype = DType::u8});
  a.running_mean = Tensor::full(Shape{channels}, 0.5, wide);
  a.running_var = Tensor::full(Shape{channels}, 2.0, wide);
  a.next_mean = Tensor::empty(Shape{channels}, wide);
  a.next_var = Tensor::empty(Shape{channels}, wide);
  a.eps = kEps;
  a.relu = c.relu;
  return a;
}

double statistics_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-13 : 2e-6; }

void check(const Case& c) {
  INFO(to_string(c.shape) << " " << name_of(c.dtype) << (c.relu ? " relu" : "")
                          << (c.residual ? " residual" : ""));
  const Index channels = c.shape.at(-1);
  const double rows = static_cast<double>(c.shape.numel() / channels);
  const BatchNormForward a = forward_arguments(c);
  const Tensor dy = normal_tensor(c.shape, c.dtype, 5);
  const Reference expected = reference(
      a.x.to_vector<double>(), c.residual ? a.residual.to_vector<double>() : Values{},
      a.gamma.to_vector<double>(), a.beta.to_vector<double>(), dy.to_vector<double>(), channels, c.relu);
  cpu::backend().norm().batch_norm_train(a);
  const double loose = 2 * tolerance(c.dtype), tight = statistics_tolerance(c.dtype);
  REQUIRE(normalised_error(a.y.to_vector<double>(), expected.y) < loose);
  REQUIRE(mean_error(a.mean.to_vector<double>(), expected.mean, expected.rstd) < tight);
  REQUIRE(normalised_error(a.rstd.to_vector<double>(), expected.rstd) < tight);
  Values next_mean, next_var;
  for (Index i = 0; i < channels; ++i) {
    next_mean.push_back(0.9 * 0.5 + 0.1 * expected.mean[i]);
    next_var.push_back(0.9 * 2.0 + 0.1 * expected.var[i] * rows / (rows - 1));
  }
  REQUIRE(normalised_error(a.next_mean.to_vector<double>(), next_mean) < tight);
  REQUIRE(normalised_error(a.next_var.to_vector<double>(), next_var) < tight);
  if (c.relu) {
    const auto bits = a.mask.to_vector<std::uint8_t>();
    Index wrong = 0;
    for (Index i = 0; i < c.shape.numel(); ++i) wrong += (bits[i / 8] >> (i % 8) & 1) != expected.passes[i];
    REQUIRE(wrong <= c.shape.numel() / 10000);  // values within rounding of 0 may fall on either side
    if (wrong > 0) return;                      // their gradients differ
  }
  BatchNormBackward b;
  b.x = a.x;
  b.gamma = a.gamma;
  b.mean = a.mean;
  b.rstd = a.rstd;
  b.mask = a.mask;
  b.relu = c.relu;
  b.dy = dy.clone();
  b.dx = Tensor::empty(c.shape, {.dtype = c.dtype});
  if (c.residual) b.dresidual = Tensor::empty(c.shape, {.dtype = c.dtype});
  b.dgamma = Tensor::full(Shape{channels}, 1.0, a.mean.options());
  b.dbeta = Tensor::full(Shape{channels}, 1.0, a.mean.options());
  b.accumulate_dbeta = true;
  cpu::backend().norm().batch_norm_backward(b);
  const double sums = c.dtype == DType::f64 ? 1e-12 : 1e-5;
  REQUIRE(normalised_error(b.dx.to_vector<double>(), expected.dx) < loose);
  if (c.residual) REQUIRE(b.dresidual.to_vector<double>() == expected.dresidual);
  REQUIRE(normalised_error(b.dgamma.to_vector<double>(), expected.dgamma) < sums);
  Values dbeta = expected.dbeta;
  for (double& v : dbeta) v += 1.0;
  REQUIRE(normalised_error(b.dbeta.to_vector<double>(), dbeta) < sums);

  // The same in place: dx over dy, and what is there already added to.
  const Tensor dx = b.dx;
  b.dx = b.dy;
  b.dgamma = b.dbeta = {};
  cpu::backend().norm().batch_norm_backward(b);
  REQUIRE(b.dx.to_vector<double>() == dx.to_vector<double>());
  b.dy = dy;
  b.accumulate_dx = true;
  cpu::backend().norm().batch_norm_backward(b);
  Values twice = expected.dx;
  for (double& v : twice) v *= 2;
  REQUIRE(normalised_error(b.dx.to_vector<double>(), twice) < loose);
}

TEST_CASE("batch norm agrees with double precision for every dtype and number of channels") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const Index channels : {1, 3, 8, 10, 16, 24, 32, 64, 100, 128, 256, 272, 1030}) {
      for (const Index rows : {5, 7, 65}) check({Shape{rows, channels}, dtype, rows != 5, rows == 7});
    }
    check({Shape{4, 28, 28, 16}, dtype, true, true});
    check({Shape{3, 7, 9, 50}, dtype, true, false});
    check({Shape{2, 30, 30, 64}, dtype, false, true});
    check({Shape{2, 9, 9, 512}, dtype, true, true});
  }
}

TEST_CASE("batch norm mixes dtypes") {
  Case c{Shape{5, 6, 20}, DType::f32, true, true};
  BatchNormForward a = forward_arguments(c);
  a.x = normal_tensor(c.shape, DType::bf16, 1);
  a.y = Tensor::empty(c.shape, {.dtype = DType::f16});
  const Values dy(static_cast<std::size_t>(c.shape.numel()), 0.0);
  const Reference expected = reference(a.x.to_vector<double>(), a.residual.to_vector<double>(),
                                       a.gamma.to_vector<double>(), a.beta.to_vector<double>(), dy, 20, true);
  cpu::backend().norm().batch_norm_train(a);
  REQUIRE(normalised_error(a.y.to_vector<double>(), expected.y) < 1e-3);
}

TEST_CASE("batch norm keeps its digits where the mean is large and when it jumps") {
  const Index rows = 20000, channels = 5;
  for (const int pattern : {0, 1, 2}) {
    INFO("pattern " << pattern);
    const Tensor x = normal_tensor(Shape{rows, channels}, DType::f32, 6);
    for (Index i = 0; i < rows; ++i) {
      for (Index c = 0; c < channels; ++c) {
        float& v = x.data<float>()[i * channels + c];
        if (pattern == 0) v += 1e4f;                          // one large mean
        if (pattern == 1) v += i < rows / 2 ? -1e4f : 1e4f;   // a jump half way
        if (pattern == 2) v = i == 0 ? 0.0f : v * 0.01f + 3;  // a first row unlike the others
      }
    }
    BatchNormForward a = forward_arguments({Shape{rows, channels}, DType::f32, false, false});
    a.x = x;
    cpu::backend().norm().batch_norm_train(a);
    const Values dy(static_cast<std::size_t>(rows * channels), 0.0);
    const Reference expected = reference(x.to_vector<double>(), {}, a.gamma.to_vector<double>(),
                                         a.beta.to_vector<double>(), dy, channels, false);
    REQUIRE(mean_error(a.mean.to_vector<double>(), expected.mean, expected.rstd) < 1e-7);
    REQUIRE(normalised_error(a.rstd.to_vector<double>(), expected.rstd) < 2e-6);
    REQUIRE(normalised_error(a.y.to_vector<double>(), expected.y) < 2e-6);
  }
}

TEST_CASE("NaN goes through batch norm and its relu") {
  BatchNormForward a = forward_arguments({Shape{40, 6}, DType::f32, true, false});
  a.x.data<float>()[6 * 3 + 2] = NAN;
  cpu::backend().norm().batch_norm_train(a);
  for (Index i = 0; i < 40; ++i) {
    for (Index c = 0; c < 6; ++c) REQUIRE(std::isnan(a.y.data<float>()[i * 6 + c]) == (c == 2));
  }
}

TEST_CASE("batch norm with running statistics") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const BatchNormForward a = forward_arguments({Shape{9, 11, 20}, dtype, true, true});
    cpu::backend().norm().batch_norm_infer(a);
    const Values x = a.x.to_vector<double>(), residual = a.residual.to_vector<double>();
    const Values gamma = a.gamma.to_vector<double>(), beta = a.beta.to_vector<double>();
    Values expected;
    for (std::size_t i = 0; i < x.size(); ++i)
      expected.push_back(
          std::max(0.0, (x[i] - 0.5) / std::sqrt(2.0 + kEps) * gamma[i % 20] + beta[i % 20] + residual[i]));
    REQUIRE(normalised_error(a.y.to_vector<double>(), expected) < 2 * tolerance(dtype));
  }
}

TEST_CASE("a frozen batch norm's gradient ignores the statistics") {
  const BatchNormForward a = forward_arguments({Shape{50, 12}, DType::f32, false, false});
  cpu::backend().norm().batch_norm_train(a);
  BatchNormBackward b;
  b.x = a.x;
  b.gamma = a.gamma;
  b.mean = a.mean;
  b.rstd = a.rstd;
  b.dy = normal_tensor(Shape{50, 12}, DType::f32, 5);
  b.dx = Tensor::empty(Shape{50, 12});
  b.frozen = true;
  cpu::backend().norm().batch_norm_backward(b);
  Values expected = b.dy.to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] *= static_cast<double>(a.gamma.data<float>()[i % 12]) *
                   static_cast<double>(a.rstd.data<float>()[i % 12]);
  REQUIRE(normalised_error(b.dx.to_vector<double>(), expected) < 1e-6);
}

// Layer and group norm: statistics over groups of elements, given by their number for each element.
struct Groups {
  Index count;
  std::vector<Index> of;         // the group of element i
  std::vector<Index> parameter;  // the gamma and beta of element i
  Index parameters;
};

void check_groups(const Groups& g, const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& dx,
                  const Tensor& dgamma, const Tensor& dbeta) {
  const Values in = x.to_vector<double>(), d = dy.to_vector<double>();
  const Values scale = gamma.to_vector<double>(), offset = beta.to_vector<double>();
  const auto groups = static_cast<std::size_t>(g.count);
  Values count(groups), m(groups), var(groups), c1(groups), c2(groups);
  for (std::size_t i = 0; i < in.size(); ++i) ++count[g.of[i]];
  for (std::size_t i = 0; i < in.size(); ++i) m[g.of[i]] += in[i] / count[g.of[i]];
  for (std::size_t i = 0; i < in.size(); ++i)
    var[g.of[i]] += std::pow(in[i] - m[g.of[i]], 2) / count[g.of[i]];
  Values out, r, expected_dx, dg(static_cast<std::size_t>(g.parameters)),
      db(static_cast<std::size_t>(g.parameters));
  for (double v : var) r.push_back(1.0 / std::sqrt(v + kEps));
  const auto normal = [&](std::size_t i) { return (in[i] - m[g.of[i]]) * r[g.of[i]]; };
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double s = scale[g.parameter[i]];
    out.push_back(normal(i) * s + offset[g.parameter[i]]);
    dg[g.parameter[i]] += d[i] * normal(i);
    db[g.parameter[i]] += d[i];
    c1[g.of[i]] += d[i] * s / count[g.of[i]];
    c2[g.of[i]] += d[i] * s * normal(i) / count[g.of[i]];
  }
  for (std::size_t i = 0; i < in.size(); ++i)
    expected_dx.push_back(r[g.of[i]] *
                          (d[i] * scale[g.parameter[i]] - c1[g.of[i]] - normal(i) * c2[g.of[i]]));
  const DType dtype = x.dtype();
  const double sums = dtype == DType::f64 ? 1e-12 : 1e-5;
  REQUIRE(normalised_error(y.to_vector<double>(), out) < 2 * tolerance(dtype));
  REQUIRE(mean_error(mean.to_vector<double>(), m, r) < statistics_tolerance(dtype));
  REQUIRE(normalised_error(rstd.to_vector<double>(), r) < statistics_tolerance(dtype));
  REQUIRE(normalised_error(dx.to_vector<double>(), expected_dx) < 2 * tolerance(dtype));
  REQUIRE(normalised_error(dgamma.to_vector<double>(), dg) < sums);
  REQUIRE(normalised_error(dbeta.to_vector<double>(), db) < sums);
}

// Layer norm of x, or group norm in `groups`, and its gradients. `statistics` is the shape of mean and rstd.
struct RowNorm {
  Tensor y, mean, rstd, dx, dgamma, dbeta;

  RowNorm(const Tensor& x, const Tensor& dy, const Tensor& gamma, const Tensor& beta, const Shape& statistics,
          std::optional<Index> groups = {})
      : y(Tensor::empty(x.shape(), x.options())),
        mean(Tensor::empty(statistics, gamma.options())),
        rstd(Tensor::empty(statistics, gamma.options())),
        dx(Tensor::empty(x.shape(), x.options())),
        dgamma(Tensor::empty(gamma.shape(), gamma.options())),
        dbeta(Tensor::empty(beta.shape(), beta.options())) {
    const RowNormForward forward{.x = x,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .eps = kEps,
                                 .groups = groups.value_or(1)};
    const RowNormBackward backward{.x = x,
                                   .gamma = gamma,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .dy = dy,
                                   .dx = dx,
                                   .dgamma = dgamma,
                                   .dbeta = dbeta,
                                   .groups = groups.value_or(1)};
    NormKernels& kernels = cpu::backend().norm();
    groups ? kernels.group_norm(forward) : kernels.layer_norm(forward);
    groups ? kernels.group_norm_backward(backward) : kernels.layer_norm_backward(backward);
  }
};

TEST_CASE("layer norm agrees with double precision") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [rows, width] :
         {std::pair<Index, Index>{1, 1}, {3, 7}, {200, 16}, {70, 650}, {5, 5000}}) {
      INFO(name_of(dtype) << " " << rows << "x" << width);
      const Tensor x = normal_tensor(Shape{rows, width}, dtype, 1),
                   dy = normal_tensor(Shape{rows, width}, dtype, 2);
      const Tensor gamma = per_channel(width, dtype, 3, 1.0), beta = per_channel(width, dtype, 4, 0.0);
      const RowNorm n(x, dy, gamma, beta, Shape{rows});
      if (width == 1) continue;  // everything is 0 but rounding
      Groups g{rows, {}, {}, width};
      for (Index i = 0; i < rows * width; ++i) {
        g.of.push_back(i / width);
        g.parameter.push_back(i % width);
      }
      check_groups(g, x, gamma, beta, dy, n.y, n.mean, n.rstd, n.dx, n.dgamma, n.dbeta);
    }
  }
}

TEST_CASE("group norm agrees with double precision") {
  struct Sizes {
    Index samples, points, channels, groups;
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const Sizes s : {Sizes{1, 9, 6, 3}, Sizes{4, 100, 32, 8}, Sizes{3, 130, 10, 1}, Sizes{2, 50, 12, 12},
                          Sizes{5, 300, 64, 32}, Sizes{1, 700, 60, 12}, Sizes{1, 700, 60, 1}}) {
      INFO(name_of(dtype) << " " << s.samples << "x" << s.points << "x" << s.channels << " in " << s.groups);
      const Shape shape{s.samples, s.points, s.channels};
      const Tensor x = normal_tensor(shape, dtype, 1), dy = normal_tensor(shape, dtype, 2);
      const Tensor gamma = per_channel(s.channels, dtype, 3, 1.0),
                   beta = per_channel(s.channels, dtype, 4, 0.0);
      const RowNorm n(x, dy, gamma, beta, Shape{s.samples, s.groups}, s.groups);
      Groups g{s.samples * s.groups, {}, {}, s.channels};
      for (Index i = 0; i < shape.numel(); ++i) {
        const Index channel = i % s.channels, sample = i / (s.points * s.channels);
        g.of.push_back(sample * s.groups + channel / (s.channels / s.groups));
        g.parameter.push_back(channel);
      }
      check_groups(g, x, gamma, beta, dy, n.y, n.mean, n.rstd, n.dx, n.dgamma, n.dbeta);
    }
  }
}

TEST_CASE("group norm is the same on any team, with fewer samples than threads too") {
  const int threads = omp_get_max_threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index samples : {1, 2, 3, 5}) {
      const Shape shape{samples, 600, 60};
      const Tensor x = normal_tensor(shape, dtype, 1), dy = normal_tensor(shape, dtype, 2);
      const Tensor gamma = per_channel(60, dtype, 3, 1.0), beta = per_channel(60, dtype, 4, 0.0);
      const auto on = [&](int team) {
        omp_set_num_threads(team);
        const RowNorm n(x, dy, gamma, beta, Shape{samples, 12}, 12);
        omp_set_num_threads(threads);
        std::vector<std::vector<double>> values;
        for (const Tensor& t : {n.y, n.mean, n.rstd, n.dx, n.dgamma, n.dbeta})
          values.push_back(t.to_vector<double>());
        return values;
      };
      const auto alone = on(1);
      for (const int team : {2, 3, 4, 7}) {
        INFO(name_of(dtype) << ", " << samples << " samples, " << team << " threads");
        const auto together = on(team);
        for (std::size_t i = 0; i < 4; ++i) CHECK(together[i] == alone[i]);
        // Sums over samples: their order is that of the threads.
        for (std::size_t i = 4; i < 6; ++i) CHECK(normalised_error(together[i], alone[i]) < 1e-6);
      }
    }
  }
}

TEST_CASE("layer norm keeps its digits where the mean is large") {
  const Tensor x = normal_tensor(Shape{4, 700}, DType::f32, 1);
  for (Index i = 0; i < x.numel(); ++i) x.data<float>()[i] += 1e4f;
  const Tensor y = Tensor::empty(x.shape()), mean = Tensor::empty(Shape{4}), rstd = Tensor::empty(Shape{4});
  cpu::backend().norm().layer_norm({.x = x, .y = y, .mean = mean, .rstd = rstd, .eps = kEps});
  Values expected;
  const Values in = x.to_vector<double>();
  for (Index row = 0; row < 4; ++row) {
    double m = 0, v = 0;
    for (Index i = 0; i < 700; ++i) m += in[row * 700 + i] / 700;
    for (Index i = 0; i < 700; ++i) v += std::pow(in[row * 700 + i] - m, 2) / 700;
    for (Index i = 0; i < 700; ++i) expected.push_back((in[row * 700 + i] - m) / std::sqrt(v + kEps));
  }
  REQUIRE(normalised_error(y.to_vector<double>(), expected) < 2e-6);
}

}  // namespace
