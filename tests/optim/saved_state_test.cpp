// States that are saved and loaded.
#include "optim/step/saved_state.h"

#include <limits>

#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

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

TEST_CASE("states of several steps lie in one list, each under its prefix", "[optim]") {
  struct Pair {
    std::shared_ptr<Toy> critic = weight_and_bias(), generator = weight_and_bias();
    optim::Sgd sgd{critic->parameters(), {.lr = 0.1, .momentum = 0.9}};
    optim::Adam adam{generator->parameters(), {.lr = 0.1}};
    optim::Step first{*critic, {&sgd}, {.accumulate = 2}};
    optim::Step second{*generator, {&adam}};
    void train(int t) {
      first.backward(golden_loss(*critic, t));
      first.backward(golden_loss(*critic, t + 1));
      first.apply();
      second.backward(golden_loss(*generator, t));
      second.apply();
    }
    std::vector<optim::NamedTensor> state() {
      std::vector<optim::NamedTensor> all;
      for (const auto& part : {first.state("critic."), second.state("generator.")})
        for (const auto& [name, tensor] : part) all.emplace_back(name, tensor.clone());
      return all;
    }
  };
  Pair straight, begun, resumed;
  for (int t = 0; t < 5; ++t) straight.train(t);
  for (int t = 0; t < 2; ++t) begun.train(t);
  begun.first.backward(golden_loss(*begun.critic, 2));  // inside an accumulation
  const auto saved = begun.state();
  for (const auto& [name, tensor] : saved)
    CHECK((name.starts_with("critic.") || name.starts_with("generator.")));
  resumed.train(9);
  resumed.first.load_state(saved, "critic.");
  resumed.second.load_state(saved, "generator.");
  CHECK(resumed.first.micro_batches() == 1);
  resumed.first.backward(golden_loss(*resumed.critic, 3));
  resumed.first.apply();
  resumed.second.backward(golden_loss(*resumed.generator, 2));
  resumed.second.apply();
  for (int t = 3; t < 5; ++t) resumed.train(t);
  const auto expected = straight.state(), actual = resumed.state();
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(actual[i].first == expected[i].first);
    CHECK(same_tensor(actual[i].second, expected[i].second));
  }

  // What is wrong is named in full, and what is another's is not wrong.
  CHECK_THAT(message_of([&] { resumed.first.load_state(saved, "generator."); }),
             Catch::Contains("2 missing (generator.moment.momentum.bias") &&
                 Catch::Contains("4 unexpected (generator.moment.mean.bias"));
  CHECK_THAT(message_of([&] { resumed.first.load_state(saved); }), Catch::Contains("missing (master.bias"));
  // Another precision: under the prefix the loss scale is the step's own.
  const auto converted = resumed.second.converted(saved, "generator.");
  CHECK(converted.size() == saved.size());
  CHECK_NOTHROW(resumed.second.load_state(converted, "generator."));
}

TEST_CASE("a given state is read by prefix", "[optim]") {
  const Tensor one = Tensor::scalar(1.0), two = Tensor::zeros({2});
  const optim::GivenState given({{"a.x", one}, {"b.x", two}, {"a.y", two}}, "a.");
  CHECK(given.find("x")->shape() == Shape{});
  CHECK(given.find("a.x") == nullptr);
  CHECK_NOTHROW(given.check_fit({{"x", one}, {"y", two}}));
  CHECK_THROWS_WITH(given.check_fit({{"x", one}}), Catch::Contains("0 missing (), 1 unexpected (a.y)"));
  CHECK_THROWS_WITH(given.check_fit({{"x", two}, {"y", two}}),
                    Catch::Contains("a.x is f32[], expected f32[2]"));
  CHECK_THROWS_WITH(optim::GivenState({{"a.x", one}, {"a.x", two}}, "a."),
                    Catch::Contains("a.x occurs twice"));
  CHECK(optim::with_prefix({{"x", one}}, "a.").front().first == "a.x");
}
