// The gradient checker finds wrong gradients, and accepts right ones.
#include "autograd/grad_check.h"

#include <catch2/catch.hpp>

#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor point(const Shape& shape, std::uint64_t seed = 1) {
  return random_tensor(shape, DType::f64, seed, 0.5, 1.5);
}

// y = x² whose gradient is off by `error` at one element, whose second derivative is wrong if `second`, and
// whose first one is wrong under create_graph only if `taped`.
struct BrokenSquare {
  double error = 0.0;
  bool second = false, taped = false;
  static constexpr OpInfo info{"test_broken_square", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor x;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved& saved, const In& in) const {
    saved.x = in.x;
    return {mul(in.x.detach(), in.x.detach())};
  }
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const {
    if (taped && needs.create_graph()) return {mul(mul(saved.x, 2.1), dy.y)};
    std::vector<double> wrong(static_cast<std::size_t>(saved.x.numel()), 0.0);
    wrong.back() = error;
    const Tensor x = second ? saved.x.detach() : saved.x;
    return {add(mul(mul(x, 2.0), dy.y), Tensor::from(wrong, saved.x.shape()))};
  }
};

}  // namespace

TEST_CASE("a right gradient passes, first and second order", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return mul(exp(xs[0]), mul(xs[1], xs[1])); };
  const TensorList at{point({2, 3}), point({2, 3}, 2)};
  const GradCheckReport first = grad_check(f, at);
  CHECK(first.passed);
  CHECK(first.compared == 12);
  CHECK(first.max_error < 1e-7);
  const GradCheckReport second = grad_grad_check(f, at);
  INFO(to_string(second));
  CHECK(second.passed);
  CHECK(second.compared == 18);  // and the output gradient
}

TEST_CASE("a wrong element is found and named", "[grad_check]") {
  const GradCheckReport report = grad_check(
      [](const TensorList& xs) { return apply(BrokenSquare{.error = 0.1}, {xs[0]}).y; }, {point({3})});
  CHECK_FALSE(report.passed);
  CHECK(report.input == 0);
  CHECK(report.element == 2);
  CHECK(report.max_error == Approx(0.1).epsilon(1e-3));
  CHECK(report.analytic - report.numerical == Approx(0.1).epsilon(1e-3));
  CHECK_THAT(to_string(report), Catch::StartsWith("failed: input 0, element 2: analytic "));
}

TEST_CASE("a wrong second derivative is found although the first is right", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return apply(BrokenSquare{.second = true}, {xs[0]}).y; };
  CHECK(grad_check(f, {point({3})}).passed);
  CHECK_FALSE(grad_grad_check(f, {point({3})}).passed);
}

TEST_CASE("a first gradient that is wrong under create_graph only is found", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return apply(BrokenSquare{.taped = true}, {xs[0]}).y; };
  CHECK(grad_check(f, {point({3})}).passed);
  const GradCheckReport report = grad_grad_check(f, {point({3})});
  CHECK_FALSE(report.passed);
  CHECK_THAT(to_string(report), Catch::Contains("the first gradient under create_graph: input 0"));
}

TEST_CASE("a gradient of NaN fails", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return apply(BrokenSquare{.error = std::nan("")}, {xs[0]}).y; };
  const GradCheckReport report = grad_check(f, {point({3})});
  CHECK_FALSE(report.passed);
  CHECK(std::isinf(report.max_error));
}

TEST_CASE("an ignored input counts as gradient zero", "[grad_check]") {
  CHECK(grad_check([](const TensorList& xs) { return mul(xs[0], 2.0); }, {point({3}), point({2})}).passed);
  // Detached although used: the analytic gradient is missing.
  CHECK_FALSE(
      grad_check([](const TensorList& xs) { return mul(xs[0], xs[1].detach()); }, {point({3}), point({3})})
          .passed);
}

TEST_CASE("second derivatives that vanish, and linear functions", "[grad_check]") {
  CHECK(grad_grad_check([](const TensorList& xs) { return mul(xs[0], 3.0); }, {point({4})}).passed);
  CHECK(grad_grad_check([](const TensorList& xs) { return mul(xs[0], xs[1]); }, {point({4}), point({4}, 3)})
            .passed);
}

TEST_CASE("fused ops are checked natively, then composed", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return apply(FusedCube{}, {xs[0]}).y; };
  CHECK(grad_check(f, {point({3})}).passed);
  CHECK(grad_grad_check(f, {point({3})}).passed);
}

TEST_CASE("a function that is not deterministic is refused", "[grad_check]") {
  int calls = 0;
  const auto f = [&](const TensorList& xs) { return mul(xs[0], static_cast<double>(++calls)); };
  const GradCheckReport report = grad_check(f, {point({2})});
  CHECK_FALSE(report.passed);
  CHECK_THAT(to_string(report), Catch::Contains("different values for the same inputs"));
}

TEST_CASE("finite differences need f64", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return mul(xs[0], 2.0); };
  CHECK_FAILS(UserError, grad_check(f, {Tensor::from({1}, {1})}),
              "finite differences need f64, input 0 is f32[1]");
  const auto narrow = [](const TensorList& xs) { return cast(xs[0], DType::f32); };
  CHECK_FAILS(UserError, grad_check(narrow, {point({1})}), "output 0 is f32[1]");
}

TEST_CASE("tolerances are the caller's", "[grad_check]") {
  const auto f = [](const TensorList& xs) { return apply(BrokenSquare{.error = 1e-4}, {xs[0]}).y; };
  CHECK(grad_check(f, {point({3})}).passed);  // within rtol
  CHECK_FALSE(grad_check(f, {point({3})}, {.atol = 1e-9, .rtol = 1e-6}).passed);
}

TEST_CASE("elements are moved one at a time, by eps to either side", "[grad_check]") {
  const Tensor at = point({3});
  const auto centre = at.to_vector<double>();
  std::vector<int> moved(3, 0);
  const auto f = [&](const TensorList& xs) {
    const auto here = xs[0].to_vector<double>();
    int others = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (here[i] == centre[i]) continue;
      ++moved[i];
      ++others;
      CHECK(std::abs(here[i] - centre[i]) == Approx(1e-4).epsilon(1e-6));
    }
    CHECK(others <= 1);
    return mul(xs[0], xs[0]);
  };
  CHECK(grad_check(f, {at}, {.eps = 1e-4}).passed);
  CHECK(moved == std::vector<int>{2, 2, 2});
}

TEST_CASE("the point is not changed, and NoGrad outside does not matter", "[grad_check]") {
  const Tensor at = point({3});
  const auto before = at.to_vector<double>();
  const NoGrad off;
  CHECK(grad_check([](const TensorList& xs) { return mul(xs[0], xs[0]); }, {at}).passed);
  CHECK(at.to_vector<double>() == before);
}
