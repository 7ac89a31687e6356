// Learning rates on the device.
#include "optim/step/rate_table.h"

#include <limits>

#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("learning rates come from a window that moves with the applied steps", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters());
  const optim::Schedule ramp(1.0, [](std::int64_t t) { return 1e-6 * static_cast<double>(t); });
  optim::Step step(*toy, {&sgd}, {.schedule = ramp});
  std::int64_t skipped = 0;
  const int period = GENERATE(1000, 10000);  // of steps that are skipped
  for (int t = 0; t < 9000; ++t) {
    const bool bad = t % period == period - 1;
    step.backward(product((*toy)[1], {1.0f, bad ? kInf : 2.0f, 0.0f}));
    step.apply();
    const optim::StepReport report = step.last_report();
    if (!bad && report.learning_rate != 1e-6 * static_cast<double>(t - skipped)) FAIL("wrong rate at " << t);
    skipped += bad;
  }
  CHECK(step.last_report().applied == 9000 - skipped);
  // A state of an earlier window brings its rates along.
  const auto early = weight_and_bias();
  optim::Sgd early_sgd(early->parameters());
  optim::Step begun(*early, {&early_sgd}, {.schedule = ramp});
  for (int t = 0; t < 10; ++t) {
    begun.backward(product((*early)[1], {1.0f, 2.0f, 0.0f}));
    begun.apply();
  }
  step.load_state(begun.state());
  step.backward(product((*toy)[1], {1.0f, 2.0f, 0.0f}));
  step.apply();
  CHECK(step.synchronize().learning_rate == 1e-6 * 10.0);
  CHECK(skipped == 9000 / period);
}

TEST_CASE("a table of learning rates serves a window of steps", "[optim]") {
  optim::RateTable table(optim::Schedule(1.0, [](std::int64_t t) { return static_cast<double>(t); }), {});
  CHECK_FALSE(table.covers(0));
  table.fill(10, 7);  // ten attempted steps, of which seven were applied
  CHECK(table.on_device().data<double>()[0] == 7.0);
  CHECK(table.on_device().data<double>()[1] == 7.0);
  CHECK(table.covers(10));
  const Index entries = table.on_device().numel() - 1;
  CHECK(table.on_device().data<double>()[entries] == static_cast<double>(7 + entries - 1));
  CHECK(table.covers(10 + entries - 1));
  CHECK_FALSE(table.covers(10 + entries));
  table.expire();
  CHECK_FALSE(table.covers(0));
  CHECK_FALSE(table.covers(10));
}
