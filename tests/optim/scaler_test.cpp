// The state machine of the loss scale: each preset against a trace of the scaler it is named after, limits
// and contradictions of its options.
#include "optim/scaler.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "core/kernels/loss_scale.h"
#include "tests/optim/scaler_traces.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Catch::Contains;
using optim::ScalerOptions;

// A scaler without its surroundings: an overflow or a greatest gradient goes in, the next scale comes out.
struct Machine {
  ScaleRules rules;
  ScaleState state;

  explicit Machine(const ScalerOptions& options) : rules(options.rules()) {
    optim::check(options);
    state.value = state.staged = static_cast<float>(options.initial);
    state.hysteresis_left = options.hysteresis;
  }
  float step(bool overflow, double amax = 0.0) {
    state.found_inf = overflow;
    state.amax = amax;
    kernels::update_scale(rules, state);
    return state.value;
  }
};

ScalerOptions options_of(const ScalerTrace& trace) {
  ScalerOptions options = optim::scaler_preset(trace.preset);
  options.initial = trace.initial;
  options.interval = trace.interval;
  options.tolerance = trace.tolerance;
  if (trace.hysteresis > 0) options.hysteresis = trace.hysteresis;
  if (trace.factor != 1.0) {
    options.growth = trace.factor;
    options.backoff = 1.0 / trace.factor;
  }
  return options;
}

}  // namespace

TEST_CASE("every preset follows the trace of its model", "[scaler]") {
  std::set<std::string> traced;
  for (const ScalerTrace& trace : kScalerTraces) {
    CAPTURE(trace.preset, trace.pattern, trace.hysteresis, trace.tolerance);
    traced.insert(trace.preset);
    const ScalerOptions options = options_of(trace);
    Machine machine(options);
    const std::string pattern = trace.pattern;
    REQUIRE(pattern.size() == trace.scales.size() + (trace.exhausted ? 1 : 0));
    for (std::size_t i = 0; i < trace.scales.size(); ++i) {
      CAPTURE(i);
      // At its floor the sanitizing scaler sees repaired gradients.
      const bool repaired =
          options.floor_action == FloorAction::sanitize && machine.state.value <= machine.rules.floor;
      const float scale =
          machine.step(pattern[i] == 'x' && !repaired, trace.amax.empty() ? 0.0 : trace.amax[i]);
      REQUIRE(scale ==
              Approx(trace.scales[i]).epsilon(options.estimator == ScaleEstimator::none ? 0.0 : 1e-6));
      REQUIRE(machine.state.exhausted == 0);
    }
    if (!trace.exhausted) continue;
    const float before = machine.state.value;
    CHECK(machine.step(true) == before);
    CHECK(machine.state.exhausted == 1);
  }
  for (const optim::ScalerPreset& preset : optim::scaler_presets()) {
    CAPTURE(preset.name);
    CHECK((preset.name == "tandem" || traced.contains(std::string(preset.name))));
  }
}

TEST_CASE("the presets begin and grow where their models do", "[scaler]") {
  const struct {
    const char* name;
    double initial;
    int grows_at;
  } expected[] = {
      {"torch", 65536, 2000},        {"fsdp", 65536, 2000},       {"apex", 65536, 2000},
      {"apex_legacy", 0x1p32, 1000}, {"deepspeed", 65536, 1000},  {"deepspeed_fused", 65536, 1001},
      {"megatron", 0x1p32, 1000},    {"keras", 32768, 2000},      {"tensorflow", 32768, 2000},
      {"paddle", 65536, 2000},       {"paddle_amp", 32768, 1000}, {"mxnet", 65536, 2001},
      {"fairseq", 32768, 2000},      {"flax", 65536, 2001},       {"tandem", 65536, 2000}};
  for (const auto& [name, initial, grows_at] : expected) {
    CAPTURE(name);
    Machine machine(optim::scaler_preset(name));
    CHECK(machine.state.value == initial);
    int steps = 1;
    while (machine.step(false) == initial && steps < 5000) ++steps;
    CHECK(steps == grows_at);
    CHECK(machine.state.value == 2 * initial);
  }
}

TEST_CASE("tandem's own scaler: bounds, exhaustion, and a forward pass that is not finite", "[scaler]") {
  ScalerOptions options = ScalerOptions::dynamic();
  options.interval = 2;
  options.initial = 0x1p23;
  Machine machine(options);
  for (int i = 0; i < 10; ++i) machine.step(false);
  CHECK(machine.state.value == 0x1p24);

  machine.state.forward_non_finite = 1;
  CHECK(machine.step(true) == 0x1p24);  // the model's doing
  CHECK(machine.state.forward_non_finite == 0);
  for (int i = 24; i > 0; --i) CHECK(machine.step(true) == std::ldexp(1.0f, i - 1));
  CHECK(machine.state.exhausted == 0);
  CHECK(machine.step(true) == 1.0f);
  CHECK(machine.state.exhausted == 1);
  machine.step(false);  // whoever goes on all the same is told anew
  CHECK(machine.state.exhausted == 0);
}

TEST_CASE("a scale comes to rest at powers of two only", "[scaler]") {
  const auto refused = [](auto change, const char* key) {
    ScalerOptions options = ScalerOptions::dynamic();
    change(options);
    CHECK_THROWS_WITH(optim::check(options), Catch::Contains(key) && Catch::Contains("power of two"));
  };
  refused([](ScalerOptions& o) { o.ceiling = 100000.0; }, "ceiling is 100000");
  refused(
      [](ScalerOptions& o) {
        o.floor = 3.0;
        o.floor_action = FloorAction::clamp;
      },
      "floor is 3");
  ScalerOptions raises = ScalerOptions::dynamic();
  raises.floor = 1e-4;  // where it raises it is a limit, not a scale
  CHECK_NOTHROW(optim::check(raises));
  for (const optim::ScalerPreset& preset : optim::scaler_presets())
    CHECK_NOTHROW(optim::check(preset.options));
}

TEST_CASE("a growth to infinity is rejected", "[scaler]") {
  ScalerOptions options = optim::scaler_preset("torch");
  options.initial = 0x1p127;
  options.interval = 1;
  Machine machine(options);
  CHECK(machine.step(false) == 0x1p127f);
  CHECK(machine.state.clean == 0);
}

TEST_CASE("options of a scaler that contradict each other are refused with the reason", "[scaler]") {
  const auto refused = [](auto change, const char* reason) {
    ScalerOptions options = ScalerOptions::dynamic();
    change(options);
    CHECK_THROWS_WITH(optim::check(options), Contains(reason));
  };
  refused([](ScalerOptions& o) { o.initial = 1000; }, "not a power of two");
  refused([](ScalerOptions& o) { o.initial = 1000; }, "the nearest is 1024");
  refused([](ScalerOptions& o) { o.growth = 1.5; }, "growth is 1.5");
  refused([](ScalerOptions& o) { o.backoff = 0.3; }, "backoff");
  refused([](ScalerOptions& o) { o.backoff = 2.0; }, "at most 1");
  refused([](ScalerOptions& o) { o.backoff = 1.0; }, "only grows");
  refused([](ScalerOptions& o) { o.interval = 0; }, "interval");
  refused([](ScalerOptions& o) { o.hysteresis = 0; }, "hysteresis");
  refused([](ScalerOptions& o) { o.initial = 0x1p30; }, "outside");
  refused([](ScalerOptions& o) { o.tolerance = 1.5; }, "tolerance");
  refused([](ScalerOptions& o) { o.estimator = ScaleEstimator::amax; }, "estimator");
  refused([](ScalerOptions& o) { o.losses = 2; }, "scope loss");
  CHECK_THROWS_WITH(optim::scaler_preset("deepsped"), Contains("deepspeed"));
  CHECK_NOTHROW(optim::check(ScalerOptions::none()));
  CHECK_NOTHROW(optim::check(ScalerOptions::fixed(0x1p30)));
  for (const optim::ScalerPreset& preset : optim::scaler_presets())
    CHECK_NOTHROW(optim::check(preset.options));
}
