// A batch in shards against the whole batch.
#include <limits>

#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

const Values& masters_of(const optim::Step& step) {
  static Values values;
  return values = values_of(step.buffers().masters());
}

bool is_close(const Values& a, const Values& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) <= 1e-6f * std::abs(y); });
}

// As a module does: a running value moves towards what a shard sees, and a pass is counted.
void observe(const nn::Statistic& running, std::int64_t& count, float seen) {
  float& next = running.next.data<float>()[0];
  next = 0.5f * next + 0.5f * seen;
  ++count;
}

}  // namespace

TEST_CASE("shards add up to the step of the whole batch", "[shards]") {
  const std::vector<double> samples{4.0, 3.0, 3.0, 2.0, 2.0, 1.0};  // of three shards, twice
  const auto train = [&](optim::ShardExchange* shards) {
    const auto toy = weight_and_bias();
    optim::Adam adam(toy->parameters(), {.lr = 0.1});
    const int calls = shards ? 2 : 6;
    optim::Step step(*toy, {&adam},
                     {.scaler = optim::ScalerOptions::fixed(256.0),
                      .clip_norm = 0.5,
                      .accumulate = calls,
                      .ema = optim::EmaOptions{},
                      .shards = shards});
    for (int t = 0; t < 3; ++t) {
      for (std::size_t i = 0; i < samples.size(); ++i)
        step.backward(golden_loss(*toy, t + static_cast<int>(i)), samples[i]);
      step.apply();
    }
    return std::make_pair(masters_of(step), step.synchronize());
  };
  OwnShards shards(3, 4.0);
  const auto [whole, report] = train(nullptr);
  const auto [divided, of_shards] = train(&shards);
  CHECK(is_close(divided, whole));
  CHECK(of_shards.loss == Approx(report.loss).epsilon(1e-12));
  CHECK(of_shards.gradient_norm == Approx(report.gradient_norm).epsilon(1e-6));
  CHECK(of_shards.applied == 3);
  CHECK(shards.empty());
}

TEST_CASE("each shard begins with the running statistics of the step, and their mean is kept", "[shards]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {8.0f});
  std::int64_t& count = toy->add_count("batches");
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  OwnShards shards(2, 1.0);
  optim::Step step(*toy, {&sgd}, {.accumulate = 2, .shards = &shards});
  // Shard 0: 8 → 4 → 2; shard 1: 8 → 6 → 5.
  for (const float seen : {0.0f, 4.0f, 0.0f, 4.0f}) {
    // The forward comes before the backward that belongs to it: the shard is entered by who asks for it.
    step.enter_shard();
    observe(running, count, seen);
    step.backward(golden_loss(*toy, 0));
  }
  step.apply();
  step.synchronize();
  CHECK(values_of(running.live) == Values{3.5f});
  CHECK(values_of(running.next) == Values{3.5f});
  CHECK(*toy->counters()[0].live == 2);
}

TEST_CASE("a shard without samples counts nothing", "[shards]") {
  const auto train = [](bool passes) {
    const auto toy = weight_and_bias();
    const nn::Statistic& running = toy->add_running("mean", {8.0f});
    std::int64_t& count = toy->add_count("batches");
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    OwnShards shards(passes ? 2 : 1, 3.0);
    optim::Step step(*toy, {&sgd}, {.shards = &shards});
    step.enter_shard();
    observe(running, count, 4.0f);
    step.backward(golden_loss(*toy, 0), 3.0);
    if (passes) step.pass();
    step.apply();
    const optim::StepReport report = step.synchronize();
    CHECK(values_of(running.live) == Values{6.0f});
    CHECK(*toy->counters()[0].live == 1);
    return std::make_pair(masters_of(step), report.loss);
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a step of shards without any sample has gradients of zero", "[shards]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {8.0f});
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  OwnShards shards(2, 1.0);
  optim::Step step(*toy, {&sgd}, {.shards = &shards});
  const Values before = masters_of(step);
  step.pass();
  step.pass();
  step.apply();
  CHECK(step.synchronize().gradient_norm == 0.0);
  CHECK(masters_of(step) == before);
  CHECK(values_of(running.live) == Values{8.0f});
}

TEST_CASE("a non-finite value in one shard skips the step of all", "[shards]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {8.0f});
  std::int64_t& count = toy->add_count("batches");
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1, .momentum = 0.9});
  OwnShards shards(2, 1.0);
  const bool spares = GENERATE(true, false);  // the scale, where the loss itself is not finite
  optim::Step step(
      *toy, {&sgd},
      {.scaler = {.initial = 1024.0, .growth = 2.0, .backoff = 0.5, .interval = 100, .spare_forward = spares},
       .shards = &shards});
  const Values before = masters_of(step);
  step.enter_shard();
  observe(running, count, 4.0f);
  step.backward(golden_loss(*toy, 0));
  Values g = golden_gradient(0, 6, 0);
  g[3] = kInf;
  step.backward(product((*toy)[0], g));
  step.apply();
  CHECK(step.synchronize().next_loss_scale == (spares ? 1024.0 : 512.0));
  CHECK(step.synchronize().skip);
  CHECK(masters_of(step) == before);
  CHECK(values_of(running.next) == Values{8.0f});
  CHECK(count == 0);
}

TEST_CASE("a step that is dropped half way leaves nothing to the next", "[shards]") {
  const auto train = [](bool drops) {
    const auto toy = weight_and_bias();
    toy->add_running("mean", {8.0f});
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    OwnShards shards(3, 1.0);
    optim::Step step(*toy, {&sgd}, {.shards = &shards});
    if (drops) {
      step.backward(golden_loss(*toy, 7));
      step.backward(golden_loss(*toy, 8));
      step.clear();
    }
    for (int shard = 0; shard < 3; ++shard) step.backward(golden_loss(*toy, shard));
    step.apply();
    return std::make_pair(masters_of(step), step.synchronize().loss);
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("parameters without a gradient take part in a step of shards with zeros", "[shards]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 1.0, .groups = {{.match = "bias", .weight_decay = 0.5}}});
  const Values before = values_of((*toy)[1].value());
  OwnShards shards(2, 1.0);
  optim::Step step(*toy, {&sgd}, {.shards = &shards});
  const Values weight = values_of((*toy)[0].value()), g = golden_gradient(0, 6, 0);
  for (int shard = 0; shard < 2; ++shard) step.backward(golden_loss(*toy, 0, false));
  step.unscale();
  step.apply();
  CHECK(values_of((*toy)[0].value())[2] == weight[2] - g[2]);
  CHECK(values_of((*toy)[1].value())[0] == Approx(0.5 * static_cast<double>(before[0])));
}

TEST_CASE("a step over shards ends and is saved whole", "[shards]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  OwnShards shards(3, 1.0);
  optim::Step step(*toy, {&sgd}, {.accumulate = 2, .shards = &shards});
  for (int shard = 0; shard < 2; ++shard) step.backward(golden_loss(*toy, shard));
  const std::string part =
      "[step] 2 calls of backward() and pass() are not a multiple of 3 shards: call one of "
      "them for every shard";
  CHECK(message_of([&] { step.apply(); }) == part);
  CHECK(message_of([&] { step.unscale(); }) == part);
  CHECK(message_of([&] { step.state(); }) ==
        "[state] a step over shards is saved between two steps: call apply() or clear() before");
  step.pass();
  step.apply();
  CHECK(step.synchronize().applied == 1);
  CHECK_FALSE(step.state().empty());
}

TEST_CASE("shards that cannot be are refused", "[shards]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  OwnShards none(0, 1.0), no_samples(2, 0.0), two(2, 1.0);
  CHECK(message_of([&] { optim::Step(*toy, {&sgd}, {.shards = &none}); }) ==
        "[step] own shards 0 to -1 of 0: each process needs at least one");
  CHECK(message_of([&] { optim::Step(*toy, {&sgd}, {.shards = &no_samples}); }) ==
        "[step] usual_samples must be positive, is 0");
  optim::ScalerOptions by_loss;
  by_loss.scope = optim::ScalerScope::loss;
  by_loss.losses = 2;
  CHECK(message_of([&] { optim::Step(*toy, {&sgd}, {.scaler = by_loss, .shards = &two}); }) ==
        "[step] a scale for each loss (scaler.scope) excludes a batch in shards");
  optim::Step plain(*toy, {&sgd});
  CHECK(message_of([&] { plain.pass(); }) == "[step] pass() is only for a batch in shards");
}
