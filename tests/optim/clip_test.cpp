// Clipping by norm and by value, in a step and manually.
#include "optim/clip.h"

#include <algorithm>
#include <limits>

#include "autograd/engine.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double norm_of(const Values& values) {
  double sum = 0.0;
  for (float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("clipping by norm and by value", "[optim]") {
  const Values g = {3.0f, -4.0f, 0.5f};
  const auto updated = [&](const optim::StepOptions& options) {
    const auto toy = std::make_shared<Toy>();
    toy->add("w", {3}, [](Index) { return 0.0; });
    optim::Sgd sgd(toy->parameters(), {.lr = 1.0});
    optim::Step step(*toy, {&sgd}, options);
    step.backward(product((*toy)[0], g));
    step.apply();
    return std::pair(values_of((*toy)[0].value()), step.last_report());
  };
  const double norm = norm_of(g);
  const auto [by_norm, report] = updated({.clip_norm = 1.0});
  CHECK(report.gradient_norm == Approx(norm).epsilon(1e-12));
  CHECK(report.clip_factor == Approx(1.0 / (norm + 1e-6)));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(by_norm[i] == Approx(-static_cast<double>(g[i]) / norm).epsilon(2e-6));
  CHECK(updated({.clip_norm = 100.0}).first == Values{-3.0f, 4.0f, -0.5f});
  CHECK(updated({.clip_value = 1.0}).first == Values{-1.0f, 1.0f, -0.5f});
  CHECK(updated({.scaler = {.initial = 1024.0}, .clip_value = 1.0}).first == Values{-1.0f, 1.0f, -0.5f});

  const Tensor a = leaf(Tensor::from({0.0f, 0.0f}, {2})), b = leaf(Tensor::scalar(0.0));
  const Tensor untouched = leaf(Tensor::scalar(0.0));
  const auto fill = [&] {
    clear_gradient_of(a);
    clear_gradient_of(b);
    backward(add(product(a, {3.0f, -4.0f}), product(b, {12.0f})));
  };
  fill();
  CHECK(optim::clip_grad_norm({a, b, untouched}, 6.5) == Approx(13.0));
  CHECK(gradient_of(a).to_vector<double>()[1] == Approx(-2.0).epsilon(1e-6));
  CHECK(gradient_of(b).item() == Approx(6.0).epsilon(1e-6));
  fill();
  CHECK(optim::clip_grad_norm({a, b}, 20.0) == Approx(13.0));
  CHECK(gradient_of(b).item() == 12.0);
  optim::clip_grad_value({a, b}, 3.5);
  CHECK(values_of(gradient_of(a)) == Values{3.0f, -3.5f});
  CHECK(gradient_of(b).item() == 3.5);
  CHECK_THROWS_AS(optim::clip_grad_norm({a}, 0.0), UserError);
  // What is not finite has no norm to clip to: nothing is changed.
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    clear_gradient_of(a);
    backward(product(a, {3.0f, bad}));
    CHECK_FALSE(std::isfinite(optim::clip_grad_norm({a}, 1.0)));
    const Values kept = values_of(gradient_of(a));
    CHECK(kept[0] == 3.0f);
    CHECK((std::isnan(bad) ? std::isnan(kept[1]) : kept[1] == bad));
  }
}

TEST_CASE("every rule sees each element within clip_value, on both sides", "[optim]") {
  const float limit = 1.5f, beyond = std::nextafter(limit, 2.0f);
  const Values steep = {-100.0f, -3.1f, -2.9f, -beyond, -limit, -0.25f,
                        0.0f,    0.25f, limit, beyond,  2.9f,   3.1f};
  Values limited = steep;
  for (float& g : limited) g = std::clamp(g, -limit, limit);
  for (const auto& entry : optim::optimizers().entries()) {
    CAPTURE(entry.name);
    const auto trained = [&](const Values& g, const optim::StepOptions& options) {
      const auto toy = std::make_shared<Toy>();
      toy->add("w", {12, 1}, [](Index i) { return 0.3 * static_cast<double>(i) - 1.0; });
      const auto optimizer = optim::make_optimizer(entry.name, toy->parameters(), {{"lr", 0.1}});
      optim::Step step(*toy, {optimizer.get()}, options);
      for (int t = 0; t < 3; ++t) {
        step.backward(product((*toy)[0], t == 1 ? Values(g.rbegin(), g.rend()) : g));
        step.apply();
      }
      return values_of((*toy)[0].value());
    };
    CHECK(trained(steep, {.clip_value = limit}) == trained(limited, {}));
    CHECK(trained(steep, {}) != trained(limited, {}));
  }
  const Tensor a = leaf(Tensor::zeros({12}));
  backward(product(a, steep));
  optim::clip_grad_value({a}, limit);
  CHECK(values_of(gradient_of(a)) == limited);
}
