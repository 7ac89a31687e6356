// Loops that PyTorch's documentation shows with GradScaler, on a Step and a LossScaler: clipping,
// accumulation, gradient penalty, several losses and optimizers; misuse; the scales in a saved state.
#include "optim/loss_scaler.h"

#include <limits>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/reduce.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Catch::Contains;

constexpr float kInf = std::numeric_limits<float>::infinity();

optim::ScalerOptions halving(double initial) {
  return {.initial = initial, .growth = 2.0, .backoff = 0.5, .interval = 3, .spare_forward = false};
}

// A loss whose gradient of weight and bias overflows in one element.
Tensor overflowing_loss(Toy& toy, int t) {
  Values g = golden_gradient(0, 6, t);
  g[5] = kInf;
  return add(product(toy[0], g), product(toy[1], golden_gradient(1, 3, t)));
}

std::pair<Values, Values> weights_of(Toy& toy) {
  return {values_of(toy[0].value()), values_of(toy[1].value())};
}

// The weights after four steps of `body` at a scale.
template <class Body>
std::pair<Values, Values> trained(double scale, optim::StepOptions options, Body&& body) {
  const auto toy = weight_and_bias();
  optim::Adam adam(toy->parameters(), {.lr = 0.05});
  options.scaler = {.initial = scale};
  optim::Step step(*toy, {&adam}, std::move(options));
  for (int t = 0; t < 4; ++t) body(*toy, step, t);
  return weights_of(*toy);
}

}  // namespace

TEST_CASE("recipe: clipping between unscale and apply sees true gradients", "[scaler]") {
  const auto by_hand = [](Toy& toy, optim::Step& step, int t) {
    step.backward(golden_loss(toy, t));
    step.unscale();
    const double norm = optim::clip_grad_norm(toy.parameters(), 0.25);
    CHECK(norm > 0.25);
    CHECK(norm < 10.0);  // of gradients around 1, not of scaled ones
    step.apply();
    CHECK(step.last_report().gradient_norm == Approx(0.25).epsilon(1e-5));
  };
  const auto plain = trained(1.0, {}, by_hand);
  CHECK(trained(4096.0, {}, by_hand) == plain);
  // The fused clipping computes the same up to one rounding.
  const auto fused = trained(4096.0, {.clip_norm = 0.25}, [](Toy& toy, optim::Step& step, int t) {
    step.backward(golden_loss(toy, t));
    step.apply();
  });
  for (std::size_t i = 0; i < plain.first.size(); ++i)
    CHECK(fused.first[i] == Approx(plain.first[i]).epsilon(1e-5));
}

TEST_CASE("recipe: accumulation keeps one scale and unscales once", "[scaler]") {
  const auto body = [](Toy& toy, optim::Step& step, int t) {
    for (int micro = 0; micro < 3; ++micro) {
      CHECK(step.scaler().value() == step.last_report().next_loss_scale);
      step.backward(golden_loss(toy, 3 * t + micro), 2.0);
    }
    if (t % 2 == 1) step.unscale();  // with or without: the same
    step.apply();
  };
  CHECK(trained(0x1p14, {.accumulate = 3}, body) == trained(1.0, {.accumulate = 3}, body));
  const auto folded = [](Toy& toy, optim::Step& step, int t) {
    for (int micro = 0; micro < 3; ++micro) step.backward(golden_loss(toy, 3 * t + micro), 2.0);
    step.apply();
  };
  CHECK(trained(0x1p14, {.accumulate = 3}, body) == trained(0x1p14, {.accumulate = 3}, folded));
}

TEST_CASE("recipe: a gradient penalty divides by the scale inside the graph", "[scaler]") {
  const auto body = [](Toy& toy, optim::Step& step, int) {
    const HigherOrder higher_order;
    const Tensor squares = sum(mul(mul(toy[0].tensor(), toy[0].tensor()), toy[0].tensor()));
    const Tensor loss = add(squares, sum(mul(toy[1].tensor(), toy[1].tensor())));
    const Tensor seed = step.loss_scale().viewed(loss.shape());
    const std::vector<Tensor> inputs{toy[0].tensor(), toy[1].tensor()};
    const TensorList scaled = gradients({&loss, 1}, {&seed, 1}, inputs, {.create_graph = true});
    Tensor penalty;
    for (const Tensor& gradient : scaled) {
      const Tensor g = mul(gradient, 1.0 / step.scaler().value());
      const Tensor square = sum(mul(g, g));
      penalty = penalty.defined() ? add(penalty, square) : square;
    }
    step.backward(add(loss, mul(penalty, 0.1)));
    step.apply();
    CHECK_FALSE(step.last_report().skip);
  };
  CHECK(trained(0x1p10, {}, body) == trained(1.0, {}, body));
}

TEST_CASE("recipe: two optimizers share a scale, and are skipped one by one", "[scaler]") {
  const auto critic = weight_and_bias(), generator = weight_and_bias();
  optim::Sgd sgd(critic->parameters(), {.lr = 0.1});
  optim::Adam adam(generator->parameters(), {.lr = 0.1});
  optim::LossScaler scaler(halving(1024.0));
  optim::Step critic_step(*critic, {&sgd}, {.shared_scaler = &scaler});
  optim::Step generator_step(*generator, {&adam}, {.shared_scaler = &scaler});
  const auto iterate = [&](int t, bool overflow) {
    critic_step.backward(overflow ? overflowing_loss(*critic, t) : golden_loss(*critic, t));
    critic_step.apply();
    CHECK(scaler.value() == critic_step.last_report().loss_scale);  // nothing moves before update()
    generator_step.backward(golden_loss(*generator, t));
    generator_step.apply();
    scaler.update();
  };
  iterate(0, false);
  CHECK(scaler.value() == 1024.0);
  const auto before = weights_of(*critic);
  const auto generated = weights_of(*generator);
  iterate(1, true);
  CHECK(scaler.value() == 512.0);
  CHECK(weights_of(*critic) == before);
  CHECK(weights_of(*generator) != generated);
  CHECK(critic_step.last_report().skip);
  CHECK_FALSE(generator_step.last_report().skip);
  for (int t = 2; t < 5; ++t) iterate(t, false);
  CHECK(scaler.value() == 1024.0);  // three clean ones
  CHECK(critic_step.last_report().applied == 4);
  CHECK(generator_step.last_report().applied == 5);
}

TEST_CASE("scope optimizer gives each step its own scale", "[scaler]") {
  const auto a = weight_and_bias(), b = weight_and_bias();
  optim::Sgd sgd_a(a->parameters(), {.lr = 0.1}), sgd_b(b->parameters(), {.lr = 0.1});
  optim::ScalerOptions options = halving(256.0);
  options.scope = optim::ScalerScope::optimizer;
  optim::LossScaler scaler(options);
  optim::Step step_a(*a, {&sgd_a}, {.shared_scaler = &scaler});
  optim::Step step_b(*b, {&sgd_b}, {.shared_scaler = &scaler});
  REQUIRE(scaler.count() == 2);
  step_a.backward(overflowing_loss(*a, 0));
  step_a.apply();
  step_b.backward(golden_loss(*b, 0));
  step_b.apply();
  scaler.update();
  CHECK(scaler.value(0) == 128.0);
  CHECK(scaler.value(1) == 256.0);
}

TEST_CASE("scope loss gives each loss its own scale", "[scaler]") {
  const auto run = [](double scale, int overflow_at, std::vector<double>& scales) {
    const auto toy = weight_and_bias();
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::ScalerOptions options = halving(scale);
    options.scope = optim::ScalerScope::loss;
    options.losses = 2;
    optim::Step step(*toy, {&sgd}, {.scaler = options});
    for (int t = 0; t < 4; ++t) {
      step.backward(golden_loss(*toy, t, false), 1.0, 0);  // of the weight alone
      CHECK_FALSE(step.ready());
      step.backward(t == overflow_at ? overflowing_loss(*toy, t) : golden_loss(*toy, t + 1), 1.0, 1);
      CHECK(step.ready());
      if (t == 2) step.unscale();
      step.apply();
      CHECK(step.last_report().skip == (t == overflow_at));
    }
    scales = {step.scaler().value(0), step.scaler().value(1)};
    return weights_of(*toy);
  };
  std::vector<double> scales;
  const auto at_one = run(1.0, -1, scales);
  CHECK(run(1024.0, -1, scales) == at_one);  // powers of two change no bit
  CHECK(scales == std::vector<double>{2048.0, 2048.0});
  run(1024.0, 1, scales);
  CHECK(scales == std::vector<double>{2048.0, 512.0});

  // The sum over losses is that of one backward of their sum.
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::Step step(*toy, {&sgd});
  for (int t = 0; t < 4; ++t) {
    step.backward(add(golden_loss(*toy, t, false), golden_loss(*toy, t + 1)));
    step.apply();
  }
  const auto together = weights_of(*toy);
  for (std::size_t i = 0; i < 6; ++i) CHECK(at_one.first[i] == Approx(together.first[i]).epsilon(1e-6));
  for (std::size_t i = 0; i < 3; ++i) CHECK(at_one.second[i] == Approx(together.second[i]).epsilon(1e-6));
}

TEST_CASE("a micro-batch may lack a loss with scope loss", "[scaler]") {
  const auto run = [](int losses, auto&& backward) {
    const auto toy = weight_and_bias();
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    optim::ScalerOptions options = halving(256.0);
    if (losses > 1) options.scope = optim::ScalerScope::loss;
    options.losses = losses;
    optim::Step step(*toy, {&sgd}, {.scaler = options, .accumulate = 2});
    backward(*toy, step);
    step.apply();
    return weights_of(*toy);
  };
  // One loss of two: the gradient is its own, not twice that.
  CHECK(run(2, [](Toy& toy, optim::Step& step) { step.backward(golden_loss(toy, 0), 1.0, 0); }) ==
        run(1, [](Toy& toy, optim::Step& step) { step.backward(golden_loss(toy, 0)); }));
  // The second loss in the second of two micro-batches only: it counts as 0 in the first.
  const auto lacking = run(2, [](Toy& toy, optim::Step& step) {
    step.backward(golden_loss(toy, 0), 1.0, 0);
    step.backward(golden_loss(toy, 1), 1.0, 0);
    CHECK_THROWS_WITH(step.backward(golden_loss(toy, 2), 1.0, 0),
                      Contains("2 times for loss number 0") && Contains("accumulate 2"));
    step.backward(golden_loss(toy, 2), 1.0, 1);
  });
  const auto added = run(1, [](Toy& toy, optim::Step& step) {
    step.backward(golden_loss(toy, 0));
    step.backward(add(golden_loss(toy, 1), golden_loss(toy, 2)));
  });
  for (std::size_t i = 0; i < 6; ++i) CHECK(lacking.first[i] == Approx(added.first[i]).epsilon(1e-6));
}

TEST_CASE("overflows found in micro-batches survive a save between them", "[scaler]") {
  optim::ScalerOptions plain = optim::ScalerOptions::dynamic(), per_loss = halving(256.0);
  plain.interval = per_loss.interval = 2;
  per_loss.scope = optim::ScalerScope::loss;
  per_loss.losses = 2;
  for (const optim::ScalerOptions& options : {plain, per_loss}) {
    const int losses = options.losses;
    CAPTURE(losses);
    const auto course = [&](bool interrupted) {
      std::vector<optim::NamedTensor> saved;
      std::vector<double> scales;
      for (int part = 0; part < 2; ++part) {
        const auto toy = weight_and_bias();
        optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
        optim::Step step(*toy, {&sgd}, {.scaler = options, .accumulate = 2});
        const auto second_half = [&] {
          for (int i = 0; i < losses; ++i) step.backward(golden_loss(*toy, 1), 1.0, i);
          step.apply();
          CHECK(step.last_report().skip);
          for (int i = 0; i < losses; ++i) scales.push_back(step.scaler().value(i));
        };
        if (part == 0) {
          // With one scale a loss that is not finite, which spares it; else an overflow of the second loss.
          if (losses == 1) step.backward(mul(golden_loss(*toy, 0), double{kInf}));
          if (losses == 2) step.backward(golden_loss(*toy, 0), 1.0, 0);
          if (losses == 2) step.backward(overflowing_loss(*toy, 0), 1.0, 1);
          if (!interrupted) {
            second_half();
            return scales;
          }
          for (const auto& [name, tensor] : step.state()) saved.emplace_back(name, tensor.clone());
        } else {
          step.load_state(saved);
          second_half();
        }
      }
      return scales;
    };
    const auto whole = course(false);
    CHECK(whole == (losses == 1 ? std::vector{65536.0} : std::vector{256.0, 128.0}));
    CHECK(course(true) == whole);
  }
}

TEST_CASE("an overflow found by unscale skips the step, even if the gradient changes later", "[scaler]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.scaler = halving(64.0)});
  const auto before = weights_of(*toy);
  step.backward(overflowing_loss(*toy, 0));
  step.unscale();
  optim::clip_grad_value(toy->parameters(), 1.0);  // infinity becomes 1
  step.apply();
  CHECK(step.last_report().skip);
  CHECK(step.last_report().next_loss_scale == 32.0);
  CHECK(weights_of(*toy) == before);

  // A step that was given up tells the next one nothing.
  step.backward(overflowing_loss(*toy, 0));
  step.unscale();
  step.clear();
  step.backward(golden_loss(*toy, 0));
  step.apply();
  CHECK_FALSE(step.last_report().skip);
}

TEST_CASE("a loss that is not finite skips the step and spares the scale", "[scaler]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.scaler = optim::ScalerOptions::dynamic()});
  step.backward(mul(golden_loss(*toy, 0), double{kInf}));
  step.apply();
  CHECK(step.last_report().skip);
  CHECK(step.last_report().next_loss_scale == 65536.0);
}

TEST_CASE("misuse of a scaler names what was wrong and what to do", "[scaler]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::LossScaler scaler(halving(64.0));
  CHECK_THROWS_WITH(scaler.update(), Contains("no step uses"));
  optim::Step step(*toy, {&sgd}, {.shared_scaler = &scaler});
  CHECK_THROWS_WITH(scaler.update(), Contains("without an apply()"));
  CHECK_THROWS_WITH(step.unscale(), Contains("without a backward()"));
  CHECK_THROWS_WITH(step.apply(), Contains("without a backward()"));
  step.backward(golden_loss(*toy, 0));
  step.unscale();
  CHECK_THROWS_WITH(step.unscale(), Contains("already"));
  CHECK_THROWS_WITH(step.backward(golden_loss(*toy, 1)), Contains("after unscale()"));
  CHECK_THROWS_WITH(step.state(), Contains("call apply()"));
  step.apply();
  CHECK_THROWS_WITH(step.unscale(), Contains("after apply()"));
  CHECK_THROWS_WITH(step.apply(), Contains("LossScaler::update()"));
  CHECK_THROWS_WITH(step.backward(golden_loss(*toy, 1)), Contains("LossScaler::update()"));
  scaler.update();
  CHECK_THROWS_WITH(scaler.update(), Contains("without an apply()"));
  CHECK_NOTHROW(step.backward(golden_loss(*toy, 1)));
  CHECK_THROWS_WITH(step.backward(golden_loss(*toy, 1), 1.0, 1), Contains("loss number 1 of 1"));
  CHECK_THROWS_WITH(scaler.value(1), Contains("there are 1 scales"));
  CHECK_THROWS_WITH(scaler.set(3.0), Contains("power of two"));
  scaler.set(8.0);
  CHECK(scaler.value() == 8.0);
}

TEST_CASE("scales go on from a saved state", "[scaler]") {
  for (const char* preset : {"mxnet", "deepspeed", "logmax", "fairseq"}) {
    CAPTURE(preset);
    optim::ScalerOptions options = optim::scaler_preset(preset);
    options.interval = 4;
    const auto course = [&](int interrupted_at) {
      std::vector<double> scales;
      std::vector<optim::NamedTensor> saved;
      int t = 0;
      for (const int until : {interrupted_at, 12}) {
        const auto toy = weight_and_bias();
        optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
        optim::Step step(*toy, {&sgd}, {.scaler = options});
        if (!saved.empty()) step.load_state(saved);
        for (; t < until; ++t) {
          step.backward(t % 5 == 2 ? overflowing_loss(*toy, t) : golden_loss(*toy, t));
          step.apply();
          scales.push_back(step.scaler().value());
        }
        saved.clear();
        for (const auto& [name, tensor] : step.state()) saved.emplace_back(name, tensor.clone());
      }
      return scales;
    };
    CHECK(course(3) == course(12));
  }
  optim::LossScaler one(halving(4.0));
  for (const std::size_t value : {0, 1}) {  // the scale, and the next one
    for (const double wrong : {0.0, -1.0, std::nan(""), 1e300}) {
      std::vector<optim::NamedTensor> damaged;
      for (const auto& [name, tensor] : one.state()) damaged.emplace_back(name, tensor.clone());
      damaged[1].second.data<double>()[value] = wrong;
      CHECK_THROWS_WITH(one.load_state(damaged), Catch::Contains("is damaged"));
    }
  }
  optim::ScalerOptions two = halving(4.0);
  two.scope = optim::ScalerScope::loss;
  two.losses = 2;
  optim::LossScaler other(two);
  CHECK_THROWS_WITH(other.load_state(one.state()), Contains("expected 4"));
}
