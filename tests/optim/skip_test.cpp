// Causes of a skipped step, and its effects.
#include <limits>

#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("a skipped step restores everything and advances what it must", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f, 2.0f});
  std::int64_t& batches = toy->add_count("batches");
  optim::Adam adam(toy->parameters(), {.weight_decay = 0.1, .amsgrad = true});
  optim::Step step(
      *toy, {&adam},
      {.scaler = {.initial = 1024.0, .growth = 2.0, .backoff = 0.5, .interval = 3, .spare_forward = false},
       .schedule = optim::exponential(0.1, 0.5),
       .ema = optim::EmaOptions{.decay = 0.9}});
  const auto good = [&](int t) {
    running.next.data<float>()[0] += 1.0f;
    ++batches;
    step.backward(golden_loss(*toy, t));
    step.apply();
    return step.last_report();
  };
  good(0);
  CHECK(good(1).learning_rate == 0.05);
  const auto before = snapshot(step);
  const std::uint64_t version = step.buffers().masters().version();

  CHECK(*toy->counters()[0].live == 2);
  running.next.data<float>()[0] = kInf;
  ++batches;
  Values g = golden_gradient(0, 6, 2);
  g[5] = std::numeric_limits<float>::quiet_NaN();
  step.backward(add(product((*toy)[0], g), product((*toy)[1], golden_gradient(1, 3, 2))));
  step.apply();
  optim::StepReport report = step.last_report();
  CHECK(report.skip);
  CHECK(report.attempted == 3);
  CHECK(report.applied == 2);
  CHECK(report.skipped == 1);
  CHECK(report.consecutive_skips == 1);
  CHECK(std::isnan(report.gradient_norm));
  CHECK(report.loss_scale == 1024.0);
  CHECK(report.next_loss_scale == 512.0);
  CHECK(step.buffers().masters().version() == version);
  CHECK(values_of(running.next) == values_of(running.live));
  CHECK(batches == 2);
  CHECK(*toy->counters()[0].live == 2);
  const auto after = snapshot(step);
  REQUIRE(after.size() == before.size());
  int counters = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(before[i].first);
    if (before[i].first.starts_with("scaler.") || before[i].first == "step.counters" ||
        before[i].first == "step.values") {
      ++counters;
      CHECK_FALSE(same_tensor(before[i].second, after[i].second));
    } else {
      CHECK(same_tensor(before[i].second, after[i].second));
    }
  }
  CHECK(counters == 4);

  // The run goes on as one that never saw the bad step: same schedule, same bias corrections, scale aside.
  report = good(2);
  CHECK(report.learning_rate == 0.025);
  CHECK(report.consecutive_skips == 0);
  good(3);
  report = good(4);
  CHECK(report.loss_scale == 512.0);
  CHECK(report.next_loss_scale == 1024.0);  // three clean ones
  CHECK(*toy->counters()[0].live == 5);
  ++batches;
  step.clear();
  CHECK(batches == 5);
  const auto clean_toy = weight_and_bias();
  optim::Adam clean_adam(clean_toy->parameters(), {.weight_decay = 0.1, .amsgrad = true});
  optim::Step clean(*clean_toy, {&clean_adam}, {.schedule = optim::exponential(0.1, 0.5)});
  for (int t = 0; t < 5; ++t) {
    clean.backward(golden_loss(*clean_toy, t));
    clean.apply();
  }
  CHECK(same_bits(values_of((*toy)[0].value()), values_of((*clean_toy)[0].value())));
  CHECK(same_bits(values_of((*toy)[1].value()), values_of((*clean_toy)[1].value())));
}

TEST_CASE("a gradient that only the unscaling makes infinite is found", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.scaler = {.initial = 0x1p-100, .floor = 0x1p-100}});
  const Tensor gradient_scale = Tensor::full({1, 1}, 0x1p120);
  // 2^120 · 2^-100 is finite where it is scaled; multiplied by 2^20 before, the true gradient is not.
  step.backward(mul(golden_loss(*toy, 0), mul(gradient_scale, 0x1p7)));
  step.apply();
  CHECK_FALSE(step.last_report().skip);  // 2^127·0.75 still is
  step.backward(mul(mul(golden_loss(*toy, 0), gradient_scale), 0x1p10));
  step.apply();
  CHECK(step.last_report().skip);
}

TEST_CASE("a scale after the greatest gradient looks at finite ones only", "[optim]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Values& worst :
       {Values{0.25f, -2.0f, 1.0f}, {0.25f, -2.0f, kInf}, {-kInf, -2.0f, 1.0f}, {nan, 2.0f, 1.0f}}) {
    const auto toy = weight_and_bias();
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    optim::Step step(*toy, {&sgd}, {.scaler = optim::scaler_preset("nvcaffe")});
    step.backward(product((*toy)[1], worst));
    step.apply();
    CHECK(step.synchronize().next_loss_scale == 2.0);  // 4 over the greatest
  }
}

TEST_CASE("a running statistic takes no value that is not finite, even of a step that is applied",
          "[optim]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f, 2.0f, 3.0f});
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.scaler = optim::scaler_preset("marian")});  // repairs gradients
  const auto take = [&](const Values& seen, const Values& gradient) {
    std::ranges::copy(seen, running.next.data<float>());
    step.backward(product((*toy)[1], gradient));
    step.apply();
    CHECK_FALSE(step.last_report().skip);
    CHECK(values_of(running.next) == values_of(running.live));
  };
  take({nan, kInf, 4.0f}, {nan, 1.0f, 1.0f});
  CHECK(values_of(running.live) == Values{1.0f, 2.0f, 4.0f});
  take({2.0f, 3.0f, 5.0f}, {1.0f, 1.0f, 1.0f});
  CHECK(values_of(running.live) == Values{2.0f, 3.0f, 5.0f});
}

TEST_CASE("a non-finite gradient is applied if skipping is off", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.skip_non_finite = false});
  step.backward(product((*toy)[1], {1.0f, kInf, 2.0f}));
  step.apply();
  CHECK(step.last_report().applied == 1);
  const Values bias = values_of((*toy)[1].value());
  CHECK(std::isfinite(bias[0]));
  CHECK(bias[1] == -kInf);
}
