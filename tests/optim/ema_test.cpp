// Averages of the weights.
#include "optim/ema.h"

#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("averages follow masters and statistics, and swap in and out", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f});
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.ema = optim::EmaOptions{.decay = 0.75, .warm_up = false}});
  std::vector<double> expected = (*toy)[0].value().to_vector<double>();
  double mean = 1.0;
  for (int t = 0; t < 4; ++t) {
    running.next.data<float>()[0] = static_cast<float>(t);
    step.backward(golden_loss(*toy, t));
    step.apply();
    const Values w = values_of((*toy)[0].value());
    for (std::size_t i = 0; i < 6; ++i) expected[i] = 0.75 * expected[i] + 0.25 * static_cast<double>(w[i]);
    mean = 0.75 * mean + 0.25 * t;
  }
  const Values trained = values_of((*toy)[0].value());
  {
    const optim::Ema::Scope averaged(*step.ema());
    const Values w = values_of((*toy)[0].value());
    for (std::size_t i = 0; i < 6; ++i) CHECK(static_cast<double>(w[i]) == Approx(expected[i]).epsilon(1e-6));
    CHECK(running.live.item() == Approx(mean));
    CHECK_THROWS_AS(optim::Ema::Scope(*step.ema()), UserError);
    CHECK_THROWS_AS(step.backward(golden_loss(*toy, 0)), UserError);
    CHECK_THROWS_AS(step.state(), UserError);
  }
  CHECK(same_bits(values_of((*toy)[0].value()), trained));
  CHECK(running.live.item() == 3.0);
  step.backward(golden_loss(*toy, 4));
  step.apply();
}

TEST_CASE("the decay of an average warms up", "[optim]") {
  const auto toy = weight_and_bias();
  const float start = values_of((*toy)[1].value())[0];
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.ema = optim::EmaOptions{.decay = 0.999}});
  step.backward(golden_loss(*toy, 0));
  step.apply();
  const double decay = 2.0 / 11.0, now = static_cast<double>(values_of((*toy)[1].value())[0]);
  const optim::Ema::Scope averaged(*step.ema());
  CHECK(static_cast<double>(values_of((*toy)[1].value())[0]) ==
        Approx(decay * static_cast<double>(start) + (1.0 - decay) * now).epsilon(1e-6));
}
