// The fused normalisation ops on the tape: gradients of both orders, residual branches whose gradients share
// memory, flat gradient buffers, shadow statistics, and dropout's regenerated mask.
#include "autograd/ops/norm.h"

#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/grad_check.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/random.h"

using namespace tandem;

namespace {

Tensor normal(const Shape& shape, std::uint32_t call, DType dtype = DType::f64) {
  const Tensor t = Tensor::empty(shape, {.dtype = dtype});
  backend_for({}).random().random_normal({.seed = 11, .call = call}, t, 0.2, 1.0);
  return t;
}

BatchNormStatistics statistics(Index channels, DType dtype = DType::f64) {
  const TensorOptions options{.dtype = dtype};
  return {Tensor::full(Shape{channels}, 0.3, options), Tensor::full(Shape{channels}, 1.7, options),
          Tensor::zeros(Shape{channels}, options), Tensor::zeros(Shape{channels}, options)};
}

void check(const DifferentiableFunction& f, const TensorList& at) {
  const GradCheckReport first = grad_check(f, at);
  INFO(to_string(first));
  CHECK(first.passed);
  const GradCheckReport second = grad_grad_check(f, at);
  INFO(to_string(second));
  CHECK(second.passed);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto u = a.to_vector<double>(), v = b.to_vector<double>();
  REQUIRE(u.size() == v.size());
  double worst = 0;
  for (std::size_t i = 0; i < u.size(); ++i) worst = std::max(worst, std::abs(u[i] - v[i]));
  return worst;
}

}  // namespace

TEST_CASE("batch norm has gradients of both orders", "[norm]") {
  const TensorList at = {normal({4, 3, 5}, 1), normal({4, 3, 5}, 2), normal({5}, 3), normal({5}, 4)};
  for (const bool relu : {false, true}) {
    for (const bool residual : {false, true}) {
      INFO("relu " << relu << ", residual " << residual);
      const auto run = [&](bool train) {
        return [=](const TensorList& in) {
          const Tensor branch = residual ? in[1] : Tensor{};
          const Tensor y = train
                               ? batch_norm_train(in[0], in[2], in[3], statistics(5), {.relu = relu}, branch)
                               : batch_norm_infer(in[0], in[2], in[3], statistics(5), {.relu = relu}, branch);
          return residual ? y : add(y, mul(in[1], 0.5));
        };
      };
      check(run(true), at);
      check(run(false), at);
    }
  }
}

TEST_CASE("layer and group norm have gradients of both orders", "[norm]") {
  check([](const TensorList& in) { return layer_norm(in[0], in[1], in[2]); },
        {normal({3, 4, 6}, 1), normal({6}, 2), normal({6}, 3)});
  check([](const TensorList& in) { return layer_norm(in[0], in[1], {}, 2); },
        {normal({3, 4, 5}, 1), normal({4, 5}, 2)});
  check([](const TensorList& in) { return layer_norm(in[0], {}, {}); }, {normal({7}, 1)});
  check([](const TensorList& in) { return group_norm(in[0], in[1], in[2], 3); },
        {normal({2, 3, 2, 6}, 1), normal({6}, 2), normal({6}, 3)});
}

TEST_CASE("a residual network's gradients do not depend on how buffers are shared", "[norm]") {
  // Two blocks; every tensor meets two branches. The fused first-order run may write gradients over each
  // other's memory, the composed one may not.
  const auto network = [](const TensorList& p) {
    Tensor x = batch_norm_train(mul(p[0], 1.0), p[1], p[2], {}, {.relu = true});
    for (int block = 0; block < 2; ++block) {
      const Tensor h = batch_norm_train(mul(x, p[3]), p[1], p[2], {}, {.relu = true});
      x = batch_norm_train(mul(h, p[3]), p[1], p[2], {}, {.relu = block == 0}, x);
    }
    return sum(mul(x, x));
  };
  const auto leaves = [] {
    return TensorList{leaf(normal({40, 30, 35}, 1)), leaf(normal({35}, 2)), leaf(normal({35}, 3)),
                      leaf(normal({35}, 4))};
  };
  const TensorList fused = leaves(), composed = leaves();
  backward(network(fused));
  {
    const HigherOrder higher_order;
    backward(network(composed), 1.0, {.create_graph = true});
  }
  for (std::size_t i = 0; i < fused.size(); ++i) {
    const Tensor a = gradient_of(fused[i]), b = gradient_of(composed[i]);
    CHECK(largest_difference(a, b) < 1e-9 * norm(b.detach()).item());
  }
  for (const Tensor& parameter : composed) clear_gradient_of(parameter);  // a taped gradient holds its leaf
}

TEST_CASE("parameter gradients go into flat buffers and accumulate there", "[norm]") {
  const Tensor x = normal({9, 4}, 1, DType::f32);
  Parameter gamma(Tensor::full(Shape{4}, 1.0)), beta(Tensor::zeros(Shape{4}));
  const Tensor values = Tensor::zeros(Shape{8}), gradients = Tensor::full(Shape{8}, 5.0);
  gamma.move_into(values.rows(0, 4), gradients.rows(0, 4));
  beta.move_into(values.rows(4, 4), gradients.rows(4, 4));
  const auto run = [&] { backward(sum(mul(batch_norm_train(x, gamma, beta, {}), x))); };
  run();
  const auto once = gradients.to_vector<float>();
  run();
  const auto twice = gradients.to_vector<float>();
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(once[i] != 5.0f);
    CHECK(twice[i] == Approx(2 * once[i]).margin(1e-5));
  }
}

TEST_CASE("training writes the shadow statistics only, fused and composed alike", "[norm]") {
  const Tensor x = normal({50, 3}, 1);
  const BatchNormStatistics fused = statistics(3), composed = statistics(3);
  batch_norm_train(x, {}, {}, fused, {.momentum = 0.25});
  {
    const HigherOrder higher_order;
    batch_norm_train(x, {}, {}, composed, {.momentum = 0.25});
  }
  CHECK(fused.mean.to_vector<double>() == std::vector<double>(3, 0.3));
  CHECK(fused.var.to_vector<double>() == std::vector<double>(3, 1.7));
  CHECK(largest_difference(fused.next_mean, composed.next_mean) < 1e-12);
  CHECK(largest_difference(fused.next_var, composed.next_var) < 1e-12);
  const Tensor expected = add(mul(var(x, {0}), 0.25), 0.75 * 1.7);
  CHECK(largest_difference(fused.next_var, expected) < 1e-12);
}

TEST_CASE("the shadow statistics may be written over the running ones", "[norm]") {
  for (const bool composed : {false, true}) {
    const Tensor x = normal({50, 3}, 1);
    const BatchNormStatistics apart = statistics(3);
    BatchNormStatistics together = statistics(3);
    together.next_mean = together.mean;
    together.next_var = together.var;
    const auto train = [&](const BatchNormStatistics& s) {
      batch_norm_train(x, {}, {}, s, {.momentum = 0.25});
    };
    if (composed) {
      const HigherOrder higher_order;
      train(apart);
      train(together);
    } else {
      train(apart);
      train(together);
    }
    CHECK(together.mean.to_vector<double>() == apart.next_mean.to_vector<double>());
    CHECK(together.var.to_vector<double>() == apart.next_var.to_vector<double>());
  }
}

TEST_CASE("normalisation refuses what it cannot do", "[norm]") {
  const Tensor x = Tensor::zeros(Shape{2, 3, 4});
  CHECK_THROWS_AS(batch_norm_train(Tensor::zeros(Shape{1, 4}), {}, {}, {}), UserError);
  CHECK_THROWS_AS(batch_norm_train(x, Tensor::zeros(Shape{3}), {}, {}), UserError);
  CHECK_THROWS_AS(batch_norm_train(x, {}, {}, {}, {}, Tensor::zeros(Shape{2, 3, 5})), UserError);
  CHECK_THROWS_AS(batch_norm_infer(x, {}, {}, {}), UserError);
  CHECK_THROWS_AS(layer_norm(x, {}, {}, 4), UserError);
  CHECK_THROWS_AS(layer_norm(x, Tensor::zeros(Shape{3}), {}), UserError);
  CHECK_THROWS_AS(group_norm(x, {}, {}, 3), UserError);
}

TEST_CASE("dropout regenerates its mask in backward, whatever the dtype", "[dropout]") {
  std::vector<bool> kept;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const RandomScope scope(5, 2, 0);
    const Tensor x = leaf(Tensor::full(Shape{100, 101}, 1.0, {.dtype = dtype}));
    const Tensor y = dropout(x, 0.25);
    const auto values = y.to_vector<double>();
    std::vector<bool> mask;
    double total = 0;
    for (double v : values) {
      mask.push_back(v != 0.0);
      total += v;
      CHECK((v == 0.0 || std::abs(v - 4.0 / 3.0) < 6e-3));
    }
    CHECK(total / static_cast<double>(values.size()) == Approx(1.0).margin(0.02));
    if (kept.empty()) kept = mask;
    CHECK(mask == kept);
    const Tensor seed = Tensor::full(x.shape(), 1.0, {.dtype = dtype});
    backward({&y, 1}, {&seed, 1});
    CHECK(gradient_of(x).to_vector<double>() == values);
  }
  check(
      [](const TensorList& in) {
        const RandomScope scope(5, 2, 0);
        return dropout(mul(in[0], in[0]), 0.4);
      },
      {normal({5, 6}, 1)});
  const Tensor x = Tensor::zeros(Shape{3});
  CHECK(dropout(x, 0.5, /*training=*/false).is_same(x));
  CHECK_THROWS_AS(dropout(x, 1.0), UserError);
}
