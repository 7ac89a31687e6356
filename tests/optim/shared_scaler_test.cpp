// One loss scaler of several steps: reports of each, retried steps, saving and loading.
#include <limits>

#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

optim::ScalerOptions dynamic(optim::ScalerScope scope = optim::ScalerScope::global) {
  optim::ScalerOptions options = optim::ScalerOptions::dynamic();
  options.initial = 1024.0;
  options.interval = 3;
  options.scope = scope;
  return options;
}

// Two networks with a step each. A gradient overflows for every scale above `limit`.
struct Pair {
  explicit Pair(const optim::ScalerOptions& options = dynamic(), bool shared = true)
      : scaler(options),
        first(*critic, {&sgd}, {.scaler = options, .shared_scaler = shared ? &scaler : nullptr}),
        second(*generator, {&adam}, {.scaler = options, .shared_scaler = shared ? &scaler : nullptr}) {}

  static void run(optim::Step& step, Toy& toy, int t, double limit) {
    const bool overflows = step.scaler().value(step.scaler().count() - 1) > limit;
    step.backward(golden_loss(toy, t));
    if (overflows) {  // as if a layer's gradient had not fitted 16 bits
      const Parameter& weight = toy[0];
      weight.gradient().data<float>()[3] = kInf;
    }
    step.apply();
  }
  void turn_first(int t, double limit = 1e30) { run(first, *critic, t, limit); }
  void turn_second(int t, double limit = 1e30) { run(second, *generator, t, limit); }
  void iterate(int t, double limit = 1e30) {
    turn_first(t, limit);
    turn_second(t);
    scaler.update();
  }
  // Copies.
  std::vector<optim::NamedTensor> state(bool with_scaler = true) {
    std::vector<optim::NamedTensor> all;
    const auto add = [&](const std::vector<optim::NamedTensor>& part) {
      for (const auto& [name, tensor] : part) all.emplace_back(name, tensor.clone());
    };
    add(first.state("critic."));
    add(second.state("generator."));
    if (with_scaler) add(scaler.state());
    return all;
  }
  void load(const std::vector<optim::NamedTensor>& all) {
    scaler.load_state(all);
    first.load_state(all, "critic.");
    second.load_state(all, "generator.");
  }
  Values weights_of_first() { return values_of((*critic)[0].value()); }
  Values weights_of_second() { return values_of((*generator)[0].value()); }

  std::shared_ptr<Toy> critic = weight_and_bias(), generator = weight_and_bias();
  optim::Sgd sgd{critic->parameters(), {.lr = 0.1, .momentum = 0.9}};
  optim::Adam adam{generator->parameters(), {.lr = 0.1}};
  optim::LossScaler scaler;
  optim::Step first, second;
};

void check_same(const std::vector<optim::NamedTensor>& a, const std::vector<optim::NamedTensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].first);
    CHECK(a[i].first == b[i].first);
    CHECK(same_tensor(a[i].second, b[i].second));
  }
}

}  // namespace

TEST_CASE("an update sees the overflow of any step, and once", "[scaler]") {
  for (const bool both : {false, true}) {
    Pair pair;
    pair.turn_first(0, 0.0);
    pair.turn_second(0, both ? 0.0 : 1e30);
    CHECK(pair.scaler.value() == 1024.0);
    pair.scaler.update();
    CHECK(pair.scaler.value() == 512.0);
    CHECK(pair.first.last_report().skip);
    CHECK(pair.second.last_report().skip == both);
    CHECK(pair.scaler.state_of().found_inf == 0);
  }
}

TEST_CASE("a skipped step of one network is done again by itself", "[scaler]") {
  Pair pair, clean;
  const Values start = pair.weights_of_first();
  pair.turn_first(0, 300.0);
  pair.turn_second(0);
  pair.scaler.update();
  const Values generated = pair.weights_of_second();
  int again = 0;
  for (; pair.first.last_report().skip; ++again) {
    CHECK(pair.weights_of_first() == start);
    pair.turn_first(0, 300.0);
    pair.scaler.update();
  }
  CHECK(again == 2);
  CHECK(pair.scaler.value() == 256.0);
  CHECK(pair.first.last_report().attempted == 3);
  CHECK(pair.first.last_report().applied == 1);
  CHECK(pair.second.last_report().attempted == 1);
  CHECK(pair.weights_of_second() == generated);
  // A power of two changes no bit: as if it had never been skipped.
  clean.iterate(0);
  CHECK(same_bits(pair.weights_of_first(), clean.weights_of_first()));
  CHECK(same_bits(pair.weights_of_second(), clean.weights_of_second()));
  // The other network may also wait until the first one's step is done.
  Pair waiting;
  waiting.turn_first(0, 600.0);
  waiting.scaler.update();
  waiting.turn_first(0, 600.0);
  waiting.turn_second(0);
  waiting.scaler.update();
  CHECK(waiting.scaler.value() == 512.0);
  CHECK(same_bits(waiting.weights_of_first(), clean.weights_of_first()));
  CHECK(same_bits(waiting.weights_of_second(), clean.weights_of_second()));
}

TEST_CASE("a step that is given up takes back what its losses told a shared scale", "[scaler]") {
  Pair pair;
  pair.first.backward(mul(golden_loss(*pair.critic, 0), double{kInf}));
  CHECK(pair.scaler.state_of().forward_non_finite == 1);
  pair.first.clear();
  CHECK(pair.scaler.state_of().forward_non_finite == 0);
  // Another step's stays.
  pair.second.backward(mul(golden_loss(*pair.generator, 0), double{kInf}));
  pair.first.backward(mul(golden_loss(*pair.critic, 0), double{kInf}));
  pair.first.clear();
  CHECK(pair.scaler.state_of().forward_non_finite == 1);
  pair.second.clear();
  pair.iterate(1, 0.0);
  CHECK(pair.scaler.value() == 512.0);  // an overflow, which no loss excuses
}

TEST_CASE("a shared scaler is saved once, beside its steps", "[scaler]") {
  for (const optim::ScalerScope scope : {optim::ScalerScope::global, optim::ScalerScope::optimizer}) {
    Pair straight(dynamic(scope));
    const auto course = [](Pair& pair, int from, int until) {
      for (int t = from; t < until; ++t) pair.iterate(t, t == 2 ? 0.0 : 1e30);
    };
    course(straight, 0, 9);
    for (const int stop : {0, 2, 3, 5}) {
      CAPTURE(stop);
      Pair begun(dynamic(scope)), resumed(dynamic(scope));
      course(begun, 0, stop);
      const auto saved = begun.state();
      int scales = 0;
      for (const auto& [name, tensor] : saved) scales += name.find("scaler.") != std::string::npos;
      CHECK(scales == 2 * begun.scaler.count());
      resumed.turn_first(7);  // something to be overwritten, in the middle of an iteration
      resumed.load(saved);
      CHECK(resumed.first.last_report().next_loss_scale == resumed.scaler.value());
      course(resumed, stop, 9);
      check_same(resumed.state(), straight.state());
    }
  }
}

TEST_CASE("steps with scalers of their own save each its own", "[scaler]") {
  Pair pair(dynamic(), false), loaded(dynamic(), false);
  pair.turn_first(0, 0.0);
  pair.turn_second(0);
  const auto saved = pair.state(false);
  std::vector<std::string> scales;
  for (const auto& [name, tensor] : saved)
    if (name.find("scaler.values") != std::string::npos) scales.push_back(name);
  CHECK(scales == std::vector<std::string>{"critic.scaler.values", "generator.scaler.values"});
  loaded.first.load_state(saved, "critic.");
  loaded.second.load_state(saved, "generator.");
  CHECK(loaded.first.scaler().value() == 512.0);
  CHECK(loaded.second.scaler().value() == 1024.0);
  check_same(loaded.state(false), saved);
}

TEST_CASE("a scaler takes its own names alone", "[scaler]") {
  optim::LossScaler scaler(dynamic()), other(dynamic());
  scaler.set(64.0);
  auto state = scaler.state("g.");
  CHECK(state[0].first == "g.scaler.counters");
  state.emplace_back("g.master.weight", Tensor::zeros({2}));
  state.emplace_back("scaler.values", Tensor::zeros({2}));
  other.load_state(state, "g.");
  CHECK(other.value() == 64.0);
  CHECK_THROWS_WITH(other.load_state(state), Catch::Contains("the state holds 1 tensors, expected 2"));
  state.erase(state.begin());
  CHECK_THROWS_WITH(other.load_state(state, "g."), Catch::Contains("the state holds 1 tensors, expected 2"));
}
