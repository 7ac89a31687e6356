// Changes of a run's learning rate besides its schedule: factors of one step, lasting factors, averages that
// begin late; and the rules by which evaluations request them.
#include <limits>

#include "optim/averaging_start.h"
#include "optim/plateau.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void train(optim::Step& step, Toy& toy, int from, int to) {
  for (int t = from; t < to; ++t) {
    step.backward(golden_loss(toy, t));
    step.apply();
  }
}

}  // namespace

TEST_CASE("the factor of a step is on its rate alone, and on the rate of its own count", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters());
  const optim::Schedule ramp(1.0, [](std::int64_t t) { return 0.01 * static_cast<double>(t + 1); });
  optim::Step step(*toy, {&sgd}, {.schedule = ramp});
  std::int64_t applied = 0;
  for (int t = 0; t < 12; ++t) {
    const bool bad = t % 4 == 1, odd = t % 3 != 0;
    step.backward(product((*toy)[1], {1.0f, bad ? kInf : 2.0f, 0.0f}));
    const float before = values_of((*toy)[1].value())[0];
    step.apply(odd ? 0.5 : 1.0);
    const double rate = (odd ? 0.5 : 1.0) * ramp(applied);
    CHECK(step.synchronize().learning_rate == rate);
    const double after = static_cast<double>(before) - (bad ? 0.0 : rate);
    CHECK(static_cast<double>(values_of((*toy)[1].value())[0]) == Approx(after).epsilon(1e-6));
    applied += bad ? 0 : 1;
  }
  step.backward(golden_loss(*toy, 0));
  CHECK_THAT(message_of([&] { step.apply(-1.0); }), Catch::Contains("must be a number of at least 0, is -1"));
  CHECK_THROWS_AS(step.apply(std::numeric_limits<double>::quiet_NaN()), UserError);
}

TEST_CASE("a factor that stays lowers every rate from the next step on, but not below the least", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters());
  optim::Step step(*toy, {&sgd}, {.schedule = optim::constant(0.4, {.steps = 4, .start = 0.1})});
  const auto rate = [&] {
    step.backward(golden_loss(*toy, 0));
    step.apply();
    return step.synchronize().learning_rate;
  };
  CHECK(rate() == Approx(0.04));
  step.set_rate_factor({.factor = 0.25, .least = 0.08});
  CHECK(rate() == Approx(0.08));  // a quarter of 0.13 is less
  step.set_rate_factor({.factor = 0.5, .least = 0.0});
  CHECK(rate() == Approx(0.11));
  step.set_rate_factor({.factor = 0.01, .least = 1.0});
  CHECK(rate() == Approx(0.31));  // the schedule's own is the most
}

TEST_CASE("a uniform mean goes on from a state, and before it begins there is none", "[optim]") {
  const auto make = [](Toy& toy, optim::Sgd& sgd) {
    return std::make_unique<optim::Step>(toy, std::vector<optim::Optimizer*>{&sgd},
                                         optim::StepOptions{.ema = optim::EmaOptions{.uniform = true}});
  };
  const auto whole_toy = weight_and_bias(), cut_toy = weight_and_bias(), next_toy = weight_and_bias();
  optim::Sgd whole_sgd(whole_toy->parameters(), {.lr = 0.1}), cut_sgd(cut_toy->parameters(), {.lr = 0.1}),
      next_sgd(next_toy->parameters(), {.lr = 0.1});
  const auto whole = make(*whole_toy, whole_sgd), cut = make(*cut_toy, cut_sgd),
             next = make(*next_toy, next_sgd);
  for (const auto& [step, toy] : {std::pair{whole.get(), whole_toy.get()}, {cut.get(), cut_toy.get()}}) {
    train(*step, *toy, 0, 2);
    CHECK_FALSE(step->ema()->active(step->synchronize().applied));
    step->begin_average();
    CHECK_FALSE(step->ema()->active(step->synchronize().applied));
    train(*step, *toy, 2, 5);
    CHECK(step->ema()->active(step->synchronize().applied));
  }
  next->load_state(snapshot(*cut));
  train(*whole, *whole_toy, 5, 9);
  train(*next, *next_toy, 5, 9);
  whole->begin_average();  // once only
  CHECK(same_bits(values_of(whole->ema()->average()), values_of(next->ema()->average())));
  CHECK(same_bits(values_of((*whole_toy)[0].value()), values_of((*next_toy)[0].value())));
  // A step that is skipped is none of its values.
  const Values before = values_of(whole->ema()->average());
  whole->backward(product((*whole_toy)[1], {1.0f, kInf, 0.0f}));
  whole->apply();
  CHECK(same_bits(before, values_of(whole->ema()->average())));

  const auto plain_toy = weight_and_bias();
  optim::Sgd plain_sgd(plain_toy->parameters(), {.lr = 0.1});
  optim::Step plain(*plain_toy, {&plain_sgd}, {.ema = optim::EmaOptions{}});
  CHECK_THAT(message_of([&] { plain.begin_average(); }), Catch::Contains("there is no uniform mean"));
}

TEST_CASE("an epoch that is evaluated twice counts once", "[optim]") {
  optim::PlateauState plateau;
  CHECK_FALSE(optim::observe(plateau, {}, 10.0, 1, false));
  CHECK(optim::observe(plateau, {}, 11.0, 2, false));
  const optim::PlateauState before = plateau;
  CHECK_FALSE(optim::observe(plateau, {}, 12.0, 2, false));
  CHECK(plateau == before);
  CHECK(plateau.best_epoch == 1);
  optim::AveragingState averaging;
  CHECK_FALSE(optim::observe(averaging, {.patience = 0}, 10.0, 1, false));
  CHECK_FALSE(optim::observe(averaging, {.patience = 0}, 11.0, 1, false));
  CHECK(optim::observe(averaging, {.patience = 0}, 11.0, 2, false));
}

TEST_CASE("averaging begins when a figure is worse than the best of all but the last few", "[optim]") {
  const auto begins = [](const std::vector<double>& figures, std::int64_t patience, bool greater) {
    optim::AveragingState state;
    for (std::size_t i = 0; i < figures.size(); ++i)
      if (optim::observe(state, {.patience = patience}, figures[i], static_cast<std::int64_t>(i) + 1,
                         greater))
        return state.begun;
    return std::int64_t{0};
  };
  // Among the figures before the last two, 8 is the best when 8.5 comes.
  CHECK(begins({10, 8, 9, 9, 8.5, 7}, 2, false) == 5);
  // AWD-LSTM's: not before there are more than five.
  CHECK(begins({1, 2, 3, 4, 5, 6, 7}, 5, false) == 7);
  CHECK(begins({10, 9, 8, 7, 6, 5, 4, 3, 2}, 0, false) == 0);
  CHECK(begins({10, 10, 10}, 0, false) == 0);  // no worse
  CHECK(begins({1, 3, 2}, 0, true) == 3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(begins({nan, nan, 10, nan, 11}, 0, false) == 5);
}
