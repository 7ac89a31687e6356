// Gradients of gradients, gradients with respect to anything on the tape, and fused ops.
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor number(double value) { return Tensor::scalar(value, {.dtype = DType::f64}); }

Tensor gradient(const Tensor& y, const Tensor& x, BackwardOptions options = {}) {
  const Tensor one = Tensor::full(y.shape(), 1.0, y.options());
  return gradients(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1), options)[0];
}

}  // namespace

TEST_CASE("x³ differentiated three times", "[higher]") {
  const Tensor x = leaf(number(2));
  const Tensor y = mul(mul(x, x), x);
  const Tensor first = gradient(y, x, {.create_graph = true});
  CHECK(first.item() == 12.0);
  const Tensor second = gradient(first, x, {.create_graph = true});
  CHECK(second.item() == 12.0);
  const Tensor third = gradient(second, x);
  CHECK(third.item() == 6.0);
  CHECK_FALSE(third.requires_grad());
  CHECK_FALSE(gradient_of(x).defined());  // gradients() touches no leaf
}

TEST_CASE("mixed second derivatives are symmetric", "[higher]") {
  const Tensor x = leaf(number(0.7)), y = leaf(number(-1.3));
  const Tensor z = sin(mul(mul(x, x), y));
  const Tensor zx = gradient(z, x, {.create_graph = true}), zy = gradient(z, y, {.create_graph = true});
  const double xy = gradient(zx, y, {.retain_graph = true}).item();
  const double yx = gradient(zy, x, {.retain_graph = true}).item();
  const double a = 0.7, b = -1.3, u = a * a * b;
  CHECK(xy == Approx(yx).epsilon(1e-12));
  CHECK(xy == Approx(2 * a * std::cos(u) - a * a * 2 * a * b * std::sin(u)).epsilon(1e-12));
}

TEST_CASE("a gradient penalty trains through backward", "[higher]") {
  const Tensor x = leaf(number(3)), w = leaf(number(2));
  const Tensor y = mul(mul(x, x), w);
  const Tensor slope = gradient(y, x, {.create_graph = true});  // 2xw
  backward(mul(slope, slope));                                  // 4x²w²
  CHECK(gradient_of(w).item() == Approx(8.0 * 9 * 2));
  CHECK(gradient_of(x).item() == Approx(8.0 * 3 * 4));
}

TEST_CASE("backward with create_graph leaves a taped gradient on the leaf", "[higher]") {
  const Tensor x = leaf(number(2));
  backward(mul(mul(x, x), x), 1.0, {.create_graph = true});
  const Tensor first = gradient_of(x);
  CHECK(first.item() == 12.0);
  REQUIRE(first.requires_grad());
  CHECK(gradient(first, x).item() == 12.0);
  backward(mul(x, 1.0));  // an untaped contribution: the sum has no tape, and what was held stays
  CHECK(gradient_of(x).item() == 13.0);
  CHECK_FALSE(gradient_of(x).requires_grad());
  CHECK(first.item() == 12.0);
  clear_gradient_of(x);
}

TEST_CASE("a taped gradient also reaches a flat buffer", "[higher]") {
  Parameter p(Tensor::from({2}, {1}));
  const Tensor values = Tensor::zeros({1}), buffer = Tensor::full({1}, 99.0);
  p.move_into(values, buffer);
  const Tensor x = p;
  backward(sum(mul(mul(x, x), x)), 1.0, {.create_graph = true});
  CHECK(buffer.item() == 12.0);
  CHECK(p.gradient().requires_grad());
  backward(sum(p.gradient()));
  CHECK(buffer.item() == 24.0);
  CHECK_FALSE(p.gradient().requires_grad());
  p.leaf().clear_gradient();
}

TEST_CASE("gradients with respect to intermediates", "[higher]") {
  const Tensor x = leaf(number(3));
  const Tensor a = mul(x, x), b = mul(a, 2.0), c = mul(b, a);  // c = 2a²
  const Tensor one = number(1);
  const TensorList wanted{a, b, x};
  const TensorList found = gradients(std::span(&c, 1), std::span(&one, 1), wanted, {.retain_graph = true});
  CHECK(found[0].item() == 36.0);        // 4a
  CHECK(found[1].item() == 9.0);         // a
  CHECK(found[2].item() == 36.0 * 6.0);  // 4a·2x
  CHECK(gradients(std::span(&c, 1), std::span(&one, 1), std::span(&c, 1))[0].item() == 1.0);
}

TEST_CASE("gradients stop at what was asked for", "[higher]") {
  const Tensor x = leaf(number(3));
  int failures = 1;  // throws if backward reaches below `a`
  const Tensor a = apply(Faulty{&failures}, {x}).y;
  const Tensor y = mul(a, a);
  CHECK(gradient(y, a).item() == 6.0);
  CHECK(failures == 1);
}

TEST_CASE("an input the output does not depend on has an absent gradient", "[higher]") {
  const Tensor x = leaf(number(3)), other = leaf(number(4));
  const Tensor y = mul(x, x);
  const Tensor one = number(1);
  const TensorList wanted{other, x};
  const TensorList found = gradients(std::span(&y, 1), std::span(&one, 1), wanted);
  CHECK_FALSE(found[0].defined());
  CHECK(found[1].item() == 6.0);
}

TEST_CASE("gradients refuse inputs without one", "[higher]") {
  const Tensor x = leaf(number(3)), y = mul(x, x), one = number(1), constant = number(2);
  CHECK_FAILS(UserError, gradients(std::span(&y, 1), std::span(&one, 1), {}),
              "[gradients] name at least one input");
  CHECK_FAILS(UserError, gradients(std::span(&y, 1), std::span(&one, 1), std::span(&constant, 1)),
              "[gradients] input f64[] does not require a gradient");
}

TEST_CASE("several outputs with gradients of their own", "[higher]") {
  const Tensor x = leaf(number(3));
  const TensorList outputs{mul(x, x), mul(x, 5.0)}, seeds{number(2), number(10)};
  CHECK(gradients(outputs, seeds, std::span(&x, 1), {.retain_graph = true})[0].item() == 2 * 6.0 + 10 * 5.0);
  const TensorList twice{outputs[0], outputs[0]};
  CHECK(gradients(twice, seeds, std::span(&x, 1))[0].item() == 12 * 6.0);
  CHECK(seeds[0].item() == 2.0);  // the caller's output gradients are not written
}

TEST_CASE("create_graph through a fused op outside its scope names the scope", "[higher]") {
  const Tensor x = leaf(number(2));
  const Tensor y = apply(FusedCube{}, {x}).y;
  CHECK(y.item() == 8.0);
  CHECK_FAILS(UserError, gradient(y, x, {.create_graph = true}),
              "[test_fused_cube] this fused op has no second derivative; build the graph inside a "
              "tandem::HigherOrder");
  CHECK(gradient(y, x).item() == 12.0);  // first order works on
}

TEST_CASE("inside a HigherOrder scope a fused op runs composed", "[higher]") {
  const HigherOrder scope;
  const Tensor x = leaf(number(2));
  const Tensor y = apply(FusedCube{}, {x}).y;
  const Tensor first = gradient(y, x, {.create_graph = true});
  CHECK(first.item() == 12.0);
  CHECK(gradient(first, x).item() == 12.0);
}

TEST_CASE("an op that saved its own output is differentiated through it", "[higher]") {
  const Tensor x = leaf(number(0.5));
  const Tensor y = exp(x);
  const Tensor first = gradient(y, x, {.create_graph = true});
  const Tensor second = gradient(first, x, {.create_graph = true});
  CHECK(second.item() == Approx(std::exp(0.5)).epsilon(1e-14));
  CHECK(gradient(second, x).item() == Approx(std::exp(0.5)).epsilon(1e-14));
}
