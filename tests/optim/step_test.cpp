// The transaction: accumulation, clipping, skips, averages, state, misuse.
#include <omp.h>

#include <algorithm>
#include <limits>

#include "autograd/engine.h"
#include "autograd/ops/reduce.h"
#include "core/allocator.h"
#include "core/backend.h"
#include "core/convert.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

namespace tandem::test {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A linear model of 4 inputs whose loss over rows [first, first+count) of a fixed batch is a mean of squares.
struct Regression {
  std::shared_ptr<Toy> toy = std::make_shared<Toy>();
  Regression() {
    toy->add("w", {4, 1}, [](Index i) { return 0.1 * static_cast<double>(i) - 0.2; });
  }
  Tensor loss(Index first, Index count) const {
    const Tensor x = Tensor::from(
        tabulate(16 * 4, [](Index i) { return std::sin(1.7 * static_cast<double>(i)); }), {16, 4});
    const Tensor y =
        Tensor::from(tabulate(16, [](Index i) { return std::cos(0.9 * static_cast<double>(i)); }), {16, 1});
    const Tensor r = sub(matmul(x.rows(first, count), (*toy)[0]), y.rows(first, count));
    return div(matmul(reshape(r, {1, count}), r), static_cast<double>(count));
  }
  Values weights() const { return values_of((*toy)[0].value()); }
};

double norm_of(const Values& values) {
  double sum = 0.0;
  for (float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("flat buffers: reverse order, aligned, gaps stay zero", "[optim]") {
  const auto toy = std::make_shared<Toy>();
  toy->add("a", {3}, [](Index i) { return 1.0 + static_cast<double>(i); });
  toy->add("frozen", {7}, [](Index) { return 5.0; }).set_trainable(false);
  toy->add("b", {5, 5}, [](Index i) { return static_cast<double>(i); });
  // eps 0 would make 0/0 of a gap that took part.
  optim::Adam adam(toy->parameters(), {.lr = 0.1, .eps = 0.0});
  optim::Step step(*toy, {&adam});
  const optim::FlatBuffers& flat = step.buffers();
  REQUIRE(flat.slots().size() == 2);
  CHECK(flat.slots()[0].parameter.name() == "b");
  CHECK(flat.slots()[1].first == 32);
  CHECK(flat.length() == 48);
  CHECK(values_of((*toy)[0].value()) == Values{1, 2, 3});
  CHECK((*toy)[0].value().shares_storage(flat.masters()));
  CHECK_FALSE((*toy)[1].value().shares_storage(flat.masters()));
  CHECK(reinterpret_cast<std::uintptr_t>((*toy)[0].value().raw()) % 64 == 0);
  for (int t = 0; t < 3; ++t) {
    step.backward(add(product((*toy)[0], Values(3, 1.0f)), product((*toy)[2], Values(25, -1.0f))));
    CHECK((*toy)[2].gradient().shares_storage(flat.gradients()));
    step.apply();
  }
  const Values masters = values_of(flat.masters());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    if ((i >= 25 && i < 32) || i >= 35) CHECK(masters[i] == 0.0f);
    CHECK(std::isfinite(masters[i]));
  }
}

TEST_CASE("flat buffers take no more than alignment needs", "[optim]") {
  for (const Index count : {1, 15, 16, 17, 32}) {
    const auto toy = std::make_shared<Toy>();
    for (const char* name : {"a", "b"}) toy->add(name, {count}, [](Index) { return 1.0; });
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    CHECK(optim::Step(*toy, {&sgd}).buffers().length() == 2 * ((count + 15) / 16 * 16));
  }
}

TEST_CASE("micro-batches weighted by samples equal one batch", "[optim]") {
  const auto train = [](const std::vector<std::pair<Index, Index>>& parts, bool weighted) {
    Regression r;
    optim::Sgd sgd(r.toy->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Step step(*r.toy, {&sgd}, {.clip_norm = 0.5, .accumulate = 4});
    for (int t = 0; t < 5; ++t) {
      for (const auto& [first, count] : parts)
        step.backward(r.loss(first, count), weighted ? static_cast<double>(count) : 1.0);
      step.apply();
    }
    return std::pair(r.weights(), step.last_report().gradient_norm);
  };
  const auto [whole, norm] = train({{0, 16}}, true);
  const auto [split, split_norm] = train({{0, 4}, {4, 7}, {11, 5}}, true);
  const auto [equal, equal_norm] = train({{0, 4}, {4, 4}, {8, 4}, {12, 4}}, false);
  const auto [wrong, wrong_norm] = train({{0, 4}, {4, 7}, {11, 5}}, false);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(split[i] == Approx(whole[i]).epsilon(3e-6).margin(1e-6));
    CHECK(equal[i] == Approx(whole[i]).epsilon(3e-6).margin(1e-6));
  }
  CHECK(split_norm == Approx(norm).epsilon(1e-5));
  CHECK(equal_norm == Approx(norm).epsilon(1e-5));
  CHECK(std::abs(wrong_norm - norm) > 1e-3);  // the weights do matter here
}

TEST_CASE("micro-batches that count nothing add nothing to a step", "[optim]") {
  const auto train = [](const std::vector<std::pair<Index, double>>& parts) {
    Regression r;
    optim::Sgd sgd(r.toy->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Step step(*r.toy, {&sgd}, {.accumulate = 4});
    for (int t = 0; t < 3; ++t) {
      for (const auto& [first, weight] : parts) step.backward(r.loss(first, 4), weight);
      step.apply();
    }
    return std::pair(r.weights(), step.last_report());
  };
  const auto [expected, report] = train({{4, 3.0}, {12, 1.5}});
  for (const auto& parts : {std::vector<std::pair<Index, double>>{{0, 0.0}, {4, 3.0}, {8, 0.0}, {12, 1.5}},
                            {{4, 3.0}, {0, 0.0}, {12, 1.5}, {8, 0.0}}}) {
    const auto [weights, own] = train(parts);
    CHECK(weights == expected);
    CHECK(own.loss == report.loss);
    CHECK(own.gradient_norm == report.gradient_norm);
  }
  const auto [still, nothing] = train({{0, 0.0}, {4, 0.0}});
  CHECK(still == Regression().weights());
  CHECK(nothing.gradient_norm == 0.0);
  CHECK(nothing.applied == 3);
}

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
  for (const optim::OptimizerInfo& info : optim::optimizers()) {
    CAPTURE(info.name);
    const auto trained = [&](const Values& g, const optim::StepOptions& options) {
      const auto toy = std::make_shared<Toy>();
      toy->add("w", {12, 1}, [](Index i) { return 0.3 * static_cast<double>(i) - 1.0; });
      const auto optimizer = optim::make_optimizer(info.name, toy->parameters(), {.lr = 0.1});
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

TEST_CASE("without skipping a bad gradient is applied where it is", "[optim]") {
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

TEST_CASE("parameters without a gradient are left alone", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Adam adam(toy->parameters(), {.lr = 0.1, .weight_decay = 0.5});
  optim::Step step(*toy, {&adam});
  const Values bias = values_of((*toy)[1].value());
  for (int t = 0; t < 3; ++t) {
    step.backward(golden_loss(*toy, t, false));
    step.apply();
  }
  CHECK(same_bits(values_of((*toy)[1].value()), bias));
  for (const auto& [name, tensor] : step.state()) {
    if (name == "updates.bias") CHECK(tensor.item() == 0.0);
    if (name == "updates.weight") CHECK(tensor.item() == 3.0);
  }
}

TEST_CASE("several optimizers share one step", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd({toy->parameters()[0]}, {.lr = 0.2, .momentum = 0.9});
  optim::Adam adam({toy->parameters()[1]}, {.lr = 0.05});
  optim::Step step(*toy, {&sgd, &adam});
  const auto alone = weight_and_bias();
  optim::Adam all(alone->parameters(), {.lr = 0.05});
  optim::Step other(*alone, {&all});
  for (int t = 0; t < 4; ++t) {
    step.backward(golden_loss(*toy, t));
    step.apply();
    other.backward(golden_loss(*alone, t));
    other.apply();
  }
  CHECK(step.last_report().learning_rate == 0.2);
  const Values mixed = values_of((*toy)[1].value()), adam_only = values_of((*alone)[1].value());
  for (std::size_t i = 0; i < 3; ++i) CHECK(mixed[i] == Approx(adam_only[i]).epsilon(1e-6));
  CHECK_FALSE(same_bits(values_of((*toy)[0].value()), values_of((*alone)[0].value())));
}

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

TEST_CASE("a saved state goes on bit for bit, inside an accumulation too", "[optim]") {
  struct Run {
    std::shared_ptr<Toy> toy = weight_and_bias();
    const nn::Statistic& running = toy->add_running("mean", {1.0f, -1.0f});
    std::int64_t& batches = toy->add_count("batches");
    optim::Lamb lamb{toy->parameters(), {.weight_decay = 0.1}};
    optim::Step step{*toy,
                     {&lamb},
                     {.scaler = {.initial = 64.0, .growth = 2.0, .backoff = 0.5, .interval = 2},
                      .schedule = optim::cosine(0.1, 12, 0.0, {.steps = 3}),
                      .clip_norm = 1.0,
                      .accumulate = 3,
                      .ema = optim::EmaOptions{}}};
    // Micro-batch n of the run; every third ends a step, the one at 10 overflows.
    void micro(int n) {
      running.next.data<float>()[1] += static_cast<float>(n);
      ++batches;
      Tensor loss = golden_loss(*toy, n, n % 3 != 0);
      if (n == 10) loss = mul(loss, 1e38);
      step.backward(loss, 1.0 + n % 3);
      if (step.ready()) step.apply();
    }
  };
  Run straight;
  for (int n = 0; n < 20; ++n) straight.micro(n);
  CHECK(straight.step.synchronize().skipped == 1);
  CHECK(*straight.toy->counters()[0].live == 15);  // six steps, one of them skipped
  const auto expected = snapshot(straight.step);
  for (const int stop : {0, 1, 6, 7, 8, 11, 12, 19}) {
    CAPTURE(stop);
    Run first;
    for (int n = 0; n < stop; ++n) first.micro(n);
    const auto saved = snapshot(first.step);
    Run second;
    second.micro(0);  // something to be overwritten
    second.step.load_state(saved);
    CHECK(second.step.attempted() == stop / 3);
    for (int n = stop; n < 20; ++n) second.micro(n);
    const auto actual = snapshot(second.step);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CAPTURE(expected[i].first);
      CHECK(actual[i].first == expected[i].first);
      CHECK(same_tensor(actual[i].second, expected[i].second));
    }
  }
}

TEST_CASE("a state that does not fit is refused before anything changes", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::Step step(*toy, {&sgd});
  const auto other_toy = weight_and_bias();
  optim::Adam adam(other_toy->parameters(), {.lr = 0.1});
  optim::Step other(*other_toy, {&adam});
  const Values before = values_of((*toy)[0].value());
  const std::string message = message_of([&] { step.load_state(other.state()); });
  CHECK_THAT(message, Catch::Contains("2 missing (moment.momentum.bias, moment.momentum.weight)"));
  CHECK_THAT(message, Catch::Contains("4 unexpected (moment.mean.bias, moment.mean.weight"));
  auto state = snapshot(step);
  for (auto& [name, tensor] : state) {
    if (name == "master.weight") tensor = Tensor::zeros({3, 2});
  }
  CHECK_THAT(message_of([&] { step.load_state(state); }),
             Catch::Contains("master.weight is f32[3,2], expected f32[2,3]"));
  CHECK(same_bits(values_of((*toy)[0].value()), before));
}

TEST_CASE("a state with values that no run comes to is refused before anything changes", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::Step step(*toy, {&sgd});
  const auto sound = snapshot(step);
  const auto refused = [&](const std::string& damaged, const Tensor& values) {
    auto state = sound;
    for (auto& [name, tensor] : state) {
      if (name == "master.weight") tensor = Tensor::full(tensor.shape(), 7.0);
      if (name == damaged) tensor = values;
    }
    const Values before = values_of((*toy)[0].value());
    CHECK_THAT(message_of([&] { step.load_state(state); }),
               Catch::Contains("damaged") || Catch::Contains("after"));
    CHECK(same_bits(values_of((*toy)[0].value()), before));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("step.counters", Tensor::from(std::vector<std::int64_t>{-1, 0, -1, 0}, {4}));
  refused("step.counters", Tensor::from(std::vector<std::int64_t>{5, 2, 2, 0}, {4}));
  refused("step.accumulation", Tensor::from(std::vector<double>{0, nan, 0, 0, 0, 0}, {6}));
  refused("step.accumulation", Tensor::from(std::vector<double>{1e300, 1, 0, 0, 0, 0}, {6}));
  refused("step.accumulation", Tensor::from(std::vector<double>{0, 1, 0, 0, nan, 0}, {6}));
  refused("scaler.values", Tensor::from(std::vector<double>{nan, 1, 0, 0, 0, 0}, {6}));
  refused("scaler.values", Tensor::from(std::vector<double>{0, 1, 0, 0, 0, 0}, {6}));
  refused("scaler.counters",
          Tensor::from(std::vector<std::int64_t>{0, std::int64_t{1} << 40, 0, 0, 0, 0, 0, 0}, {8}));
  step.load_state(sound);
}

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

TEST_CASE("misuse is an error", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2});
  CHECK_THAT(message_of([&] { step.apply(); }), Catch::Contains("[step] apply() without a backward()"));
  step.backward(golden_loss(*toy, 0));
  CHECK_FALSE(step.ready());
  step.backward(golden_loss(*toy, 1));
  CHECK(step.ready());
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 2)); }), Catch::Contains("accumulate (2)"));
  step.apply();
  CHECK_THROWS_AS(step.apply(), UserError);

  backward(golden_loss(*toy, 0));
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 0)); }),
             Catch::Contains("a gradient that no Step::backward made"));
  step.clear();
  CHECK_THAT(message_of([&] { step.backward((*toy)[0]); }), Catch::Contains("the loss must be one f32"));
  CHECK_THAT(message_of([&] { step.backward(Tensor::scalar(1.0)); }), Catch::Contains("was not recorded"));
  CHECK_THROWS_AS(step.backward(golden_loss(*toy, 0), -1.0), UserError);
  CHECK(step.micro_batches() == 0);

  CHECK_THAT(message_of([&] { optim::Step(*toy, {}); }), Catch::Contains("no optimizer"));
  CHECK_THAT(message_of([&] {
               optim::Step(*toy, {&sgd, &sgd});
             }),
             Catch::Contains("belongs to two optimizers"));
  optim::Sgd part({toy->parameters()[0]});
  CHECK_THAT(message_of([&] { optim::Step(*toy, {&part}); }), Catch::Contains("no optimizer has bias"));
  CHECK_THAT(message_of([&] { optim::Step(*toy, {&sgd}, {.schedule = optim::constant(0.3)}); }),
             Catch::Contains("sgd has the learning rate 0.1, the schedule 0.3"));
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.clip_norm = -1.0}), UserError);
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.accumulate = 0}), UserError);
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.clip_norm = 1.0, .measure = false}), UserError);
  const auto stranger = weight_and_bias();
  CHECK_THAT(message_of([&] { optim::Step(*stranger, {&sgd}); }),
             Catch::Contains("does not belong to the module"));
  // The failed constructions above took nothing over.
  CHECK_NOTHROW(step.backward(golden_loss(*toy, 0)));
  step.clear();
  const optim::Step later(*toy, {&sgd});
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 0)); }),
             Catch::Contains("belongs to another step"));

  const auto wide = std::make_shared<Toy>();
  class Wide : public nn::Module {
   public:
    Wide() { add_parameter("w", Parameter(Tensor::zeros({2}, {.dtype = DType::f64}))); }
    Tensor forward(const Tensor& x) override { return x; }
    std::string describe() const override { return "Wide"; }
  } f64;
  optim::Sgd f64_sgd(f64.parameters());
  CHECK_THAT(message_of([&] { optim::Step(f64, {&f64_sgd}); }),
             Catch::Contains("parameter w is f64[2]; masters are f32"));
}

TEST_CASE("a step that cannot be made leaves the one that lives as it was", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f});
  optim::Adam adam(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&adam}, {.working = DType::f16});
  running.next.data<float>()[0] = 2.0f;
  step.backward(golden_loss(*toy, 0));
  step.apply();
  const auto before = snapshot(step);
  const auto check_unchanged = [&] {
    const auto after = snapshot(step);
    REQUIRE(after.size() == before.size());
    for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_tensor(after[i].second, before[i].second));
    CHECK_NOTHROW(step.buffers().check_attached());
    const Tensor copy = working_copy((*toy)[0], DType::f16);
    CHECK(copy.shares_storage(working_copy((*toy)[1], DType::f16)));
    CHECK(running.live.item() == 2.0);
    step.backward(golden_loss(*toy, 1));
    step.clear();
  };
  // One that has everything a step can have, and memory that is refused at any request.
  optim::LossScaler shared(optim::ScalerOptions{.scope = optim::ScalerScope::optimizer});
  const int scales = shared.count();
  const optim::StepOptions options{.shared_scaler = &shared,
                                   .ema = optim::EmaOptions{},
                                   .working = DType::f16,
                                   .rounding = {.weights = DType::bf16},
                                   .round_statistics = DType::f16};
  std::uint64_t refused = 0;
  for (bool made = false; !made && refused < 100;) {
    INFO("request " << refused);
    host_allocator().refuse_after(refused);
    try {
      const optim::Step other(*toy, {&adam}, options);
      made = true;
    } catch (const VendorError&) {
      ++refused;
    }
    host_allocator().refuse_after({});
    if (made) break;
    check_unchanged();
    CHECK(shared.count() == scales);
  }
  CHECK(refused > 5);
  CHECK(shared.count() == scales + 1);
}

TEST_CASE("a failed backward drops the step", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f});
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2});
  step.backward(golden_loss(*toy, 0));
  running.next.data<float>()[0] = 9.0f;
  CHECK_THROWS_AS(step.backward(Tensor::scalar(1.0)), UserError);
  CHECK(step.micro_batches() == 0);
  CHECK_FALSE((*toy)[0].gradient().defined());
  CHECK(running.next.item() == 1.0);
}

TEST_CASE("the master's version moves once per applied step, and a stale graph is refused", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd});
  const std::uint64_t version = step.buffers().masters().version();
  const Tensor stale = matmul(reshape((*toy)[0], {1, 6}), reshape((*toy)[0], {6, 1}));
  step.backward(golden_loss(*toy, 0));
  step.apply();
  CHECK(step.buffers().masters().version() == version + 1);
  CHECK_THROWS_AS(step.backward(stale), UserError);
}

TEST_CASE("reduce sees the sum, with zeros where there was no gradient", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 1.0, .groups = {{.match = "bias", .weight_decay = 0.5}}});
  const Values before = values_of((*toy)[1].value());
  int calls = 0;
  optim::StepOptions options{.divisor = 2.0};
  options.reduce = [&](const Tensor& gradients) {
    ++calls;
    CHECK(gradients.data<float>()[0] == 0.0f);  // bias, first in the buffer
    backend_for(gradients.device())
        .scale_and_limit(gradients, 2.0, kInf);  // as if a second rank had the same
  };
  optim::Step step(*toy, {&sgd}, options);
  const Values weight = values_of((*toy)[0].value()), g = golden_gradient(0, 6, 0);
  step.backward(golden_loss(*toy, 0, false));
  step.apply();
  CHECK(calls == 1);
  CHECK(values_of((*toy)[0].value())[2] == weight[2] - g[2]);
  CHECK(values_of((*toy)[1].value())[0] ==
        Approx(0.5 * static_cast<double>(before[0])));  // it took part: decay
}

TEST_CASE("results do not depend on the number of threads", "[optim]") {
  const auto train = [](int threads) {
    const int usual = omp_get_max_threads();
    omp_set_num_threads(threads);
    const auto toy = std::make_shared<Toy>();
    toy->add("big", {301, 333}, [](Index i) { return std::sin(0.3 * static_cast<double>(i)); });
    toy->add("small", {7}, [](Index i) { return static_cast<double>(i); });
    toy->add("odd", {40001}, [](Index i) { return std::cos(0.11 * static_cast<double>(i)); });
    optim::Lamb lamb(toy->parameters(), {.lr = 0.01, .weight_decay = 0.1, .adapt_vectors = true});
    optim::Step step(*toy, {&lamb}, {.clip_norm = 0.1, .ema = optim::EmaOptions{}});
    for (int t = 0; t < 3; ++t) {
      // By a reduction of Tandem's own: the order of a library's product may depend on the number of threads.
      const auto term = [&](std::size_t p) {
        const Parameter& w = (*toy)[p];
        return sum(mul(w, Tensor::from(golden_gradient(p, w.value().numel(), t), w.value().shape())));
      };
      Tensor loss = term(0);
      for (std::size_t p = 1; p < 3; ++p) loss = add(loss, term(p));
      step.backward(loss);
      step.apply();
    }
    omp_set_num_threads(usual);
    return snapshot(step);
  };
  const auto one = train(1);
  for (const int threads : {2, 3, 4}) {
    const auto other = train(threads);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CAPTURE(threads, one[i].first);
      CHECK(same_tensor(one[i].second, other[i].second));
    }
  }
}

TEST_CASE("after the first step nothing is requested from the system", "[optim]") {
  const auto toy = weight_and_bias();
  toy->add_running("mean", {1.0f});
  optim::Adam adam(toy->parameters());
  optim::Step step(
      *toy, {&adam},
      {.schedule = optim::cosine(0.1, 100), .clip_norm = 1.0, .accumulate = 2, .ema = optim::EmaOptions{}});
  std::uint64_t requests = 0;
  for (int t = 0; t < 20; ++t) {
    step.backward(golden_loss(*toy, t), 3.0);
    step.backward(golden_loss(*toy, t), 2.0);
    step.apply();
    step.last_report();
    if (t == 0) requests = host_allocator().figures().system_requests;
  }
  CHECK(host_allocator().figures().system_requests == requests);
}

TEST_CASE("the fused pass writes the 16-bit working copy of the new master", "[optim]") {
  const Index n = 5003;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor master =
        Tensor::from(tabulate(n, [](Index i) { return 3.0 * std::sin(0.7 * static_cast<double>(i)); }), {n});
    const Tensor gradient =
        Tensor::from(tabulate(n, [](Index i) { return std::cos(1.7 * static_cast<double>(i)); }), {n});
    const Tensor working = Tensor::zeros({n}, {.dtype = dtype});
    const Tensor counts = Tensor::zeros({1}, {.dtype = DType::i64});
    StepState host;
    host.learning_rate = 0.01;
    const Tensor state = Tensor::zeros({sizeof(StepState)}, {.dtype = DType::u8});
    std::memcpy(state.raw(), &host, sizeof(host));
    const UpdateRange range{.first = 16, .count = n - 16};
    Backend& backend = backend_for({});
    backend.update({}, {&range, 1},
                   {.master = master, .gradient = gradient, .working = working, .counts = counts}, state);
    const Values w = values_of(master), copy = values_of(working);
    for (Index i = 0; i < n; ++i) {
      const float value = w[static_cast<std::size_t>(i)];
      const float rounded =
          dtype == DType::f16 ? widen(convert<Half>(value)) : widen(convert<BFloat16>(value));
      if (copy[static_cast<std::size_t>(i)] != (i < 16 ? 0.0f : rounded)) FAIL("element " << i);
    }
  }
}

}  // namespace tandem::test
