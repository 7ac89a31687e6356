// Softmax and cross-entropy kernels against double precision.
#include "core/kernels/softmax.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/backend.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Backend& backend() { return backend_for(Device{}); }

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Line {
  std::vector<double> x, g, p, log_p, dx, log_dx;
};

// Softmax, its logarithm and both gradients of one line, where p and log_p are as stored.
void differentiate(Line& line) {
  double dot = 0, sum = 0;
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    dot += line.g[i] * line.p[i];
    sum += line.g[i];
  }
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    line.dx.push_back(line.p[i] * (line.g[i] - dot));
    line.log_dx.push_back(line.g[i] - std::exp(line.log_p[i]) * sum);
  }
}

void evaluate(Line& line) {
  const double top = *std::max_element(line.x.begin(), line.x.end());
  double sum = 0;
  for (const double x : line.x) sum += std::exp(x - top);
  for (const double x : line.x) {
    line.p.push_back(std::exp(x - top) / sum);
    line.log_p.push_back(x - top - std::log(sum));
  }
}

}  // namespace

TEST_CASE("softmax over any axis, its logarithm and gradients", "[softmax]") {
  struct Case {
    Shape shape;
    int axis;
  };
  const Case cases[] = {{{1}, 0},    {{3, 10}, 1},      {{4, 1000}, 1},     {{200, 333}, 1},
                        {{7, 5}, 0}, {{3, 11, 300}, 1}, {{40, 21, 513}, 1}, {{0, 4}, 1},
                        {{5, 0}, 1}, {{6, 81}, 1},      {{6, 44}, 1},       {{3, 16}, 1}};
  for (const Case& c : cases) {
    for (const DType type : kFloatingTypes) {
      CAPTURE(to_string(c.shape), c.axis, name_of(type));
      const Tensor x = random_tensor(c.shape, type, 1, -8, 8), g = random_tensor(c.shape, type, 2);
      const TensorOptions same{.dtype = type};
      const Tensor p = Tensor::empty(c.shape, same), log_p = Tensor::empty(c.shape, same);
      const Tensor dx = Tensor::empty(c.shape, same), log_dx = Tensor::empty(c.shape, same);
      backend().softmax().softmax(x, c.axis, false, p);
      backend().softmax().softmax(x, c.axis, true, log_p);
      backend().softmax().softmax_backward(p, g, c.axis, false, dx);
      backend().softmax().softmax_backward(log_p, g, c.axis, true, log_dx);
      const auto xs = x.to_vector<double>(), gs = g.to_vector<double>();
      const auto ps = p.to_vector<double>(), log_ps = log_p.to_vector<double>();
      std::vector<double> ep(xs.size()), elog_p(xs.size()), edx(xs.size()), elog_dx(xs.size());
      const Index inner = c.shape.product(c.axis + 1, c.shape.rank()), extent = c.shape[c.axis];
      for (Index l = 0; extent > 0 && l < c.shape.product(0, c.axis) * inner; ++l) {
        Line exact, stored;
        const auto at = [&](Index i) {
          return static_cast<std::size_t>((l / inner * extent + i) * inner + l % inner);
        };
        for (Index i = 0; i < extent; ++i) {
          exact.x.push_back(xs[at(i)]);
          stored.x.push_back(xs[at(i)]);
          stored.g.push_back(gs[at(i)]);
          stored.p.push_back(ps[at(i)]);
          stored.log_p.push_back(log_ps[at(i)]);
        }
        evaluate(exact);
        differentiate(stored);
        for (Index i = 0; i < extent; ++i) {
          const auto k = static_cast<std::size_t>(i);
          ep[at(i)] = exact.p[k];
          elog_p[at(i)] = exact.log_p[k];
          edx[at(i)] = stored.dx[k];
          elog_dx[at(i)] = stored.log_dx[k];
        }
      }
      const double limit = tolerance_of(type).relative;
      CHECK(normalised_error(ps, ep) <= limit);
      CHECK(normalised_error(log_ps, elog_p) <= limit);
      CHECK(normalised_error(dx.to_vector<double>(), edx) <= limit);
      CHECK(normalised_error(log_dx.to_vector<double>(), elog_dx) <= limit);
    }
  }
}

TEST_CASE("softmax of extreme rows", "[softmax]") {
  for (const DType type : {DType::f64, DType::f32}) {
    // Short rows, rows long enough to be vectorised, and columns, which have a kernel of their own.
    for (const auto& [pad, columns] : {std::pair{0, 1}, {70, 1}, {0, 3}, {70, 3}}) {
      const auto softmax_of = [&, pad = pad, columns = columns](std::vector<double> row) {
        row.resize(row.size() + static_cast<std::size_t>(pad), -kInf);
        std::vector<double> values;
        for (const double v : row) values.insert(values.end(), static_cast<std::size_t>(columns), v);
        const Tensor x = tensor_of(values, {static_cast<Index>(row.size()), columns}, type),
                     y = Tensor::empty(x.shape(), {.dtype = type});
        if (columns == 1) {
          backend().softmax().softmax(x.viewed({1, x.numel()}), 1, false, y.viewed({1, x.numel()}));
        } else {
          backend().softmax().softmax(x, 0, false, y);
        }
        const auto all = y.to_vector<double>();
        for (std::size_t i = 0; i < row.size(); ++i)
          row[i] = all[(i + 1) * static_cast<std::size_t>(columns) - 1];
        return row;
      };
      const auto masked = softmax_of({3.0, -kInf, 3.0});
      CHECK(masked[0] == 0.5);
      CHECK(masked[1] == 0.0);  // exactly
      CHECK(softmax_of({1e30, 0.0})[0] == 1.0);
      CHECK(softmax_of({1e30, 0.0})[1] == 0.0);
      for (const double v : softmax_of({std::nan(""), 1.0})) CHECK(std::isnan(v));
      for (const double v : softmax_of({-kInf, -kInf})) CHECK(std::isnan(v));
      for (const double v : softmax_of({kInf, 1.0})) CHECK(std::isnan(v));
    }
  }
}

namespace {

struct Expected {
  std::vector<double> loss, weight, dx;
};

Expected cross_entropy_of(const std::vector<double>& x, const std::vector<Index>& targets,
                          const std::vector<double>& w, const CrossEntropyOptions& o,
                          const std::vector<double>& g) {
  Expected e;
  const std::size_t classes = w.size();
  const double smoothing = o.label_smoothing, n = static_cast<double>(classes);
  double total = 0;
  for (const double v : w) total += v;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == o.ignore_index) {
      e.loss.push_back(0);
      e.weight.push_back(0);
      e.dx.insert(e.dx.end(), classes, 0.0);
      continue;
    }
    Line line;
    line.x.assign(x.begin() + static_cast<std::ptrdiff_t>(r * classes),
                  x.begin() + static_cast<std::ptrdiff_t>((r + 1) * classes));
    evaluate(line);
    const auto t = static_cast<std::size_t>(targets[r]);
    double smooth = 0;
    for (std::size_t c = 0; c < classes; ++c) smooth -= w[c] * line.log_p[c];
    e.loss.push_back(-(1 - smoothing) * w[t] * line.log_p[t] + smoothing / n * smooth);
    e.weight.push_back(w[t]);
    for (std::size_t c = 0; c < classes; ++c) {
      e.dx.push_back(g[r] * ((1 - smoothing) * w[t] * (line.p[c] - (c == t)) +
                             smoothing / n * (line.p[c] * total - w[c])));
    }
  }
  return e;
}

}  // namespace

TEST_CASE("cross entropy with every option, from logits of any type", "[softmax]") {
  for (const Shape& shape :
       {Shape{5, 3}, Shape{64, 10}, Shape{30, 1000}, Shape{1, 2}, Shape{0, 4}, Shape{1003, 21}, Shape{35, 32},
        Shape{19, 33}, Shape{37, 81}, Shape{17, 50}, Shape{5, 44}, Shape{5, 1024}, Shape{6, 2085}}) {
    for (const DType type : kFloatingTypes) {
      for (const bool weighted : {false, true}) {
        for (const CrossEntropyOptions& o :
             {CrossEntropyOptions{}, CrossEntropyOptions{0.1, {}}, CrossEntropyOptions{0.3, 0},
              CrossEntropyOptions{0.0, -100}, CrossEntropyOptions{0.0, 255}}) {
          for (const DType index_type : {DType::i64, DType::i32, DType::u8}) {
            const bool fits = shape[1] <= 256 && o.ignore_index.value_or(0) >= 0;
            if (index_type == DType::u8 && !fits) continue;
            CAPTURE(to_string(shape), name_of(type), weighted, o.label_smoothing,
                    o.ignore_index.value_or(-1));
            const Index rows = shape[0], classes = shape[1];
            const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
            std::vector<Index> targets;
            RandomStream random({.seed = 9});
            for (Index r = 0; r < rows; ++r)
              targets.push_back(r % 7 == 3 && o.ignore_index
                                    ? *o.ignore_index
                                    : static_cast<Index>(random.below(static_cast<std::uint32_t>(classes))));
            // On either side of where kernels part a row, and at its end.
            if (classes > 1000)
              for (const Index row : {0, 1, 2})
                targets[static_cast<std::size_t>(row)] = std::min(Index{1023} + row, classes - 1);
            if (classes > 2000) targets[4] = classes - 1;
            std::vector<double> weights_of_rows = random_values(rows, 2);
            for (std::size_t r = 0; r < weights_of_rows.size(); r += 3) weights_of_rows[r] = 0;
            const Tensor x = random_tensor(shape, type, 1, -6, 6),
                         g = tensor_of(weights_of_rows, {rows}, wide);
            const Tensor t =
                tensor_of(std::vector<double>(targets.begin(), targets.end()), {rows}, index_type);
            const Tensor w = weighted ? random_tensor({classes}, DType::f32, 3, 0.5, 2.0) : Tensor{};
            const TensorOptions options{.dtype = wide};
            const Tensor loss = Tensor::empty({rows}, options), weight = Tensor::empty({rows}, options),
                         lse = Tensor::empty({rows}, options);
            const Tensor dx = Tensor::empty(shape, {.dtype = type});
            backend().softmax().cross_entropy(x, t, w, o, loss, weight, lse);
            backend().softmax().cross_entropy_backward(x, t, w, o, lse, g, dx);
            const Expected e =
                cross_entropy_of(x.to_vector<double>(), targets,
                                 weighted ? w.to_vector<double>()
                                          : std::vector<double>(static_cast<std::size_t>(classes), 1.0),
                                 o, g.to_vector<double>());
            CHECK(normalised_error(loss.to_vector<double>(), e.loss) <= tolerance_of(wide).relative);
            CHECK(weight.to_vector<double>() == e.weight);
            CHECK(normalised_error(dx.to_vector<double>(), e.dx) <= tolerance_of(type).relative);
            // The gradient may be written over the logits.
            const Tensor same = x.clone();
            backend().softmax().cross_entropy_backward(same, t, w, o, lse, g, same);
            CHECK(same.to_vector<double>() == dx.to_vector<double>());
          }
        }
      }
    }
  }
}

TEST_CASE("cross entropy keeps the digits of large logits and marks bad targets", "[softmax]") {
  const Tensor x = tensor_of({1000.0, 1000.5, 990.0}, {1, 3}, DType::f32);
  const Tensor loss = Tensor::empty({1}), weight = Tensor::empty({1}), lse = Tensor::empty({1});
  backend().softmax().cross_entropy(x, tensor_of({1}, {1}, DType::i64), {}, {}, loss, weight, lse);
  CHECK(close(loss.item(), std::log(1.0 + std::exp(-0.5) + std::exp(-10.5)), tolerance_of(DType::f32)));
  backend().softmax().cross_entropy(x, tensor_of({3}, {1}, DType::i64), {}, {}, loss, weight, lse);
  CHECK(std::isnan(loss.item()));
}

TEST_CASE("cross entropy of rows with infinities and NaN", "[softmax]") {
  // Few classes go side by side, others row by row, with every remainder of runs of lanes.
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const Index classes : {3, 20, 33, 40, 48, 50, 64, 81}) {
      const auto loss_of = [&](double others, std::vector<std::pair<Index, double>> values) {
        std::vector<double> row(static_cast<std::size_t>(classes), others);
        for (const auto& [at, value] : values) row[static_cast<std::size_t>(at)] = value;
        const Tensor x = tensor_of(row, {1, classes}, type), target = tensor_of({1}, {1}, DType::i64);
        const Tensor loss = Tensor::empty({1}), weight = Tensor::empty({1}), lse = Tensor::empty({1});
        backend().softmax().cross_entropy(x, target, {}, {}, loss, weight, lse);
        return loss.item();
      };
      CAPTURE(name_of(type), classes);
      for (Index at = 0; at < classes; ++at) {
        if (at == 1) continue;
        CAPTURE(at);
        CHECK(loss_of(-kInf, {{1, 3.0}, {at, 3.0}}) == Approx(std::log(2.0)).epsilon(1e-7));
        CHECK(loss_of(-kInf, {{1, 0.0}, {at, 200.0}}) == 200.0);
        CHECK(loss_of(-1e30, {{1, 0.0}, {at, -90.0}}) == 0.0);
        CHECK(std::isnan(loss_of(0.0, {{at, kInf}})));
        for (const std::uint32_t bits : {0x7fc00000u, 0xffc00001u, 0x7fffffffu})
          CHECK(std::isnan(loss_of(0.0, {{at, static_cast<double>(std::bit_cast<float>(bits))}})));
      }
      CHECK(std::isnan(loss_of(-kInf, {})));
    }
  }
}

TEST_CASE("cross entropy clears the rows that count for nothing, around the others", "[softmax]") {
  constexpr Index kRows = 9000, kClasses = 1001;
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(name_of(type));
    const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
    const Tensor x = random_tensor({kRows, kClasses}, type, 1, -6, 6);
    std::vector<double> targets(kRows, 7), slopes(kRows, 0), lse(kRows, 8);
    for (const std::size_t row : {0, 1, 5, 700, 702, 4500, 4501, 8998}) slopes[row] = 0.5;
    for (const std::size_t row : {1, 3, 701}) targets[row] = 255;
    const Tensor g = tensor_of(slopes, {kRows}, wide), t = tensor_of(targets, {kRows}, DType::u8),
                 shift = tensor_of(lse, {kRows}, wide);
    const Tensor dx = Tensor::full({kRows, kClasses}, 7.0, {.dtype = type});
    backend().softmax().cross_entropy_backward(x, t, {}, {.ignore_index = 255}, shift, g, dx);
    Index wrong = 0;
    visit_floating(type, [&]<class S>(TypeTag<S>) {
      for (Index i = 0; i < dx.numel(); ++i) {
        const auto row = static_cast<std::size_t>(i / kClasses);
        const double is = convert<double>(dx.data<S>()[i]), from = convert<double>(x.data<S>()[i]);
        const double counts = targets[row] == 255 ? 0.0 : slopes[row];
        const double expected = counts * (std::exp(from - 8) - (i % kClasses == 7 ? 1 : 0));
        wrong += counts == 0 ? is != 0 : !(std::abs(is - expected) <= 4e-3 * std::abs(expected));
      }
    });
    CHECK(wrong == 0);
  }
}
