// Measured costs, plans made from them, and the search against a shadow run.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "amp/plan/cut.h"
#include "amp/plan/prediction.h"
#include "core/error.h"
#include "studies/plan/op_times.h"
#include "studies/plan/report.h"
#include "tests/support/temporary_files.h"
#include "train/planned.h"

using namespace tandem;
using amp::plan::Kind;
using Catch::Contains;
using testing::user_error_of;

namespace {

config::Loaded small(const std::string& precision = "amp_bf16") {
  return config::load("resnet20_synthetic", {"data.batch_size=8", "model.width=4", "data.image_size=8",
                                             "data.train_size=64", "precision=" + precision});
}

planning::Measured measured(const config::Loaded& loaded, const amp::Precision& precision) {
  const auto data = config::describe_data(loaded.config);
  return planning::measure(loaded, data, train::trace_of(loaded, data), precision, {.seconds = 0.05});
}

}  // namespace

TEST_CASE("an op's time is its forward and its backward, without the casts before it", "[planning]") {
  const config::Loaded loaded = small();
  const auto data = config::describe_data(loaded.config);
  planning::Subject subject(loaded, data, amp::Precision::amp_bf16());
  const amp::ResolvedPrecision full(amp::Precision::fp32()), o1(amp::Precision::amp_bf16(), subject.model());
  for (const amp::ResolvedPrecision* plan : {&full, &o1}) {
    planning::time_step(subject, *plan);
    const planning::StepTimes times = planning::time_step(subject, *plan);
    CHECK(std::ranges::all_of(times.ops, [](double seconds) { return seconds > 0.0; }));
    const double ops = std::accumulate(times.ops.begin(), times.ops.end(), 0.0);
    CHECK(ops > 0.0);
    CHECK(ops < times.whole);
    CHECK(std::ranges::any_of(times.flop, [](std::int64_t flop) { return flop > 0; }));
  }
}

TEST_CASE("prices add up to the step that was measured", "[planning]") {
  const config::Loaded loaded = small();
  const planning::Measured prices = measured(loaded, amp::Precision::amp_bf16());
  const auto f32 = amp::plan::predict(prices.graph, amp::plan::full_precision(prices.graph));
  double ops = 0.0;
  for (const double ns : prices.f32_ns) ops += ns;
  CHECK(f32.total() == Approx(ops).epsilon(0.01));
  CHECK(f32.cast_ns == 0);
  CHECK(prices.rest_ns > 0);
  CHECK(prices.rounds >= 3);
  CHECK(prices.machine.bytes_per_second > 0.0);
  CHECK(prices.machine.flops.size() == 2);
  for (std::size_t i = 0; i < prices.graph.ops.size(); ++i) {
    const auto& op = prices.graph.ops[i];
    INFO(to_string(op.key));
    CHECK(prices.measured[i] == (op.kind == Kind::op && op.rule != CastRule::none));
    // The working copy of a few values takes less than a nanosecond.
    for (const auto& result : op.results)
      CHECK((result.cast_ns > 0 || (op.kind == Kind::parameter && result.elements < 1000)));
  }
}

TEST_CASE("a plan is no worse than the lists by its own prices, and says what it decided", "[planning]") {
  const planning::Planned planned =
      planning::make_plan(small(), {.must = {{"^fc", false}}, .seconds = 0.05, .measures_steps = false});
  REQUIRE(planned.phases.size() == 1);
  const auto& plan = planned.phases.front().plan;
  const auto ns = [](std::optional<std::int64_t> value) { return value.value_or(-1); };
  CHECK(ns(plan.predicted.plan) <= ns(plan.predicted.f32));
  CHECK(plan.policy.name == "cut");
  CHECK(plan.policy.must.size() == 1);
  const auto fc = std::ranges::find_if(plan.ops, [](const auto& op) { return op.key.path == "fc"; });
  REQUIRE(fc != plan.ops.end());
  CHECK(fc->operands == DType::f32);
  CHECK(fc->why == amp::plan::Why::must);
  CHECK_FALSE(planned.steps);
  CHECK_FALSE(planned.is_slower());
  const planning::Report report = planning::report_of(planned.phases.front());
  CHECK(report.gains.size() <= 10);
  CHECK(report.flop_share >= 0.0);
  CHECK(report.flop_share <= 1.0);
  for (const auto& lines : {report.gains, report.missed})
    CHECK(std::ranges::is_sorted(lines, std::ranges::greater{},
                                 [](const auto& line) { return line.f32_ns - line.low_ns; }));
  planning::Planned slower = planned;
  slower.steps = planning::Steps{.against_f32 = {.median = 0.99}};
  CHECK(slower.is_slower());
}

TEST_CASE("the search leaves in 16 bits what keeps the gradient within a limit", "[planning][search]") {
  const config::Loaded loaded = small();
  const auto data = config::describe_data(loaded.config);
  const auto graph = train::trace_of(loaded, data).graph;
  const auto low = amp::plan::low_precision(graph);
  const amp::Precision precision = amp::Precision::amp_bf16();
  const auto all = planning::search_types(loaded, graph, low, precision, 10.0);
  CHECK(all.search.good == amp::plan::lowered(graph, low));
  CHECK(all.search.bad.empty());
  CHECK(all.error == all.error_before);
  CHECK(all.error > all.noise);
  // Half of that error: something has to go, and not everything.
  const auto some = planning::search_types(loaded, graph, low, precision, all.error / 2.0);
  CHECK(some.error <= all.error / 2.0);
  CHECK(some.search.bad.size() + some.search.dropped.size() > 0);
  CHECK(some.search.good.size() + some.search.bad.size() + some.search.dropped.size() ==
        all.search.good.size());
  // The same again: a step that was looked at leaves nothing behind.
  const auto again = planning::search_types(loaded, graph, low, precision, all.error / 2.0);
  CHECK(again.search.good == some.search.good);
  CHECK(again.error == some.error);
  CHECK_THAT(user_error_of([&] { planning::search_types(loaded, graph, low, precision, 1e-12); }),
             Contains("one unit in the last place"));
}

TEST_CASE("a cut that is slower than level O1 takes its types", "[planning]") {
  const planning::Request request{.seconds = 0.05, .measures_steps = false};
  planning::Planned cut = planning::make_plan(small(), request);
  cut.phases.front().plan.scale = {.start = 9, .window = {3, 12}};
  const auto measured_as = [&](double high, const planning::Request& as) {
    planning::Planned planned = cut;
    planned.phases.front().assignment = amp::plan::full_precision(planned.phases.front().measured.graph);
    planned.steps = planning::Steps{.whole = {.f32 = 3.0, .rules = 2.0, .plan = 4.0},
                                    .phases = {{.f32 = 3.0, .rules = 2.0, .plan = 4.0}},
                                    .against_f32 = {.low = 0.7, .median = 0.75, .high = 0.8},
                                    .against_rules = {.low = 0.4, .median = 0.5, .high = high},
                                    .rules_against_f32 = {.low = 1.4, .median = 1.5, .high = 1.6}};
    planning::keep_faster(planned, as);
    return planned;
  };
  const auto& graph = cut.phases.front().measured.graph;
  const planning::Planned kept = measured_as(0.99, request);
  REQUIRE(kept.cut_against_rules);
  CHECK(kept.cut_against_rules->median == 0.5);
  CHECK(kept.phases.front().assignment == amp::plan::rules(graph));
  const amp::plan::PrecisionPlan& plan = kept.phases.front().plan;
  CHECK(amp::plan::assignment_of(plan, graph, "plan") == amp::plan::rules(graph));
  CHECK_FALSE(plan.share);
  CHECK(plan.model == cut.phases.front().plan.model);
  CHECK(plan.policy == cut.phases.front().plan.policy);
  CHECK(plan.scale == cut.phases.front().plan.scale);
  CHECK(plan.predicted.plan == cut.phases.front().plan.predicted.rules);
  CHECK(plan.predicted.f32 == cut.phases.front().plan.predicted.f32);
  CHECK(std::ranges::all_of(plan.ops, [](const auto& op) { return op.why == amp::plan::Why::rule; }));
  CHECK(kept.steps->whole.plan == 2.0);
  CHECK(kept.steps->phases.front().plan == 2.0);
  CHECK(kept.steps->against_rules.high == 1.0);
  CHECK(kept.steps->against_f32.median == 1.5);
  CHECK_FALSE(kept.is_slower());  // beside FP32
  CHECK(planning::to_json(kept)["cut_against_rules"]["median"] == 0.5);
  // Not when a quarter of the rounds says otherwise, and what a user or a search asked for stays.
  const auto stays = [&](const planning::Planned& planned) {
    CHECK_FALSE(planned.cut_against_rules);
    CHECK(planned.phases.front().plan == cut.phases.front().plan);
    CHECK(planned.is_slower());
    CHECK(planning::to_json(planned)["cut_against_rules"].is_null());
  };
  stays(measured_as(1.0, request));
  stays(measured_as(0.99, {.policy = "search"}));
  stays(measured_as(0.99, {.policy = "growth"}));
  stays(measured_as(0.99, {.must = {{"^fc", false}}}));
}

TEST_CASE("each phase of a GAN is planned by itself, and whole steps are of both", "[planning]") {
  const config::Loaded loaded = config::load(
      "dcgan_fashion", {"data.batch_size=4", "model.width=4", "model.noise=8", "precision=amp_bf16"});
  const planning::Planned planned =
      planning::make_plan(loaded, {.must = {{"^generator.main.0", false}}, .seconds = 0.05});
  REQUIRE(planned.phases.size() == 2);
  const amp::plan::PhasePlans plans = planned.plans();
  CHECK(plans[0].model.phase == "discriminator");
  CHECK(plans[1].model.phase == "generator");
  CHECK(plans[0].machine == plans[1].machine);
  CHECK(plans[0].model.digest != plans[1].model.digest);
  // What is pinned is in the generator's phase alone.
  REQUIRE(plans[1].ops.front().key.path == "generator.main.0");
  CHECK(plans[1].ops.front().operands == DType::f32);
  CHECK(plans[1].ops.front().why == amp::plan::Why::must);
  CHECK_THAT(user_error_of([&] {
               planning::make_plan(loaded, {.must = {{"nowhere", false}}});
             }),
             Contains("must \"nowhere\" matches none"));
  const planning::Steps& steps = planned.steps.value();
  REQUIRE(steps.phases.size() == 2);
  for (const auto& phase : steps.phases) CHECK(phase.plan > 0.0);
  CHECK(steps.whole.plan > steps.phases[0].plan);
  CHECK(steps.whole.plan > steps.phases[1].plan);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    CHECK(plans[phase].predicted.plan.value() <= plans[phase].predicted.f32.value());
    CHECK(plans[phase].measured.plan == std::llround(steps.phases[phase].plan * 1e9));
  }
  const auto json = planning::to_json(planned);
  REQUIRE(json["phases"].size() == 2);
  CHECK(json["phases"][1]["phase"] == "generator");
  CHECK(json["ops"] == plans[0].ops.size() + plans[1].ops.size());
  CHECK(json["predicted_ns"]["plan"] == plans[0].predicted.plan.value() + plans[1].predicted.plan.value());
}

TEST_CASE("the search of a phase has the error of its own gradient", "[planning][search]") {
  const config::Loaded loaded = config::load(
      "dcgan_fashion",
      {"data.batch_size=4", "model.width=4", "model.noise=8", "data.train_size=64", "precision=amp_bf16"});
  const auto data = config::describe_data(loaded.config);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    const auto graph = train::trace_of(loaded, data, phase).graph;
    const auto low = amp::plan::low_precision(graph);
    const auto all = planning::search_types(loaded, graph, low, amp::Precision::amp_bf16(), 10.0, phase);
    CHECK(all.search.good == amp::plan::lowered(graph, low));
    CHECK(all.error > all.noise);
    CHECK(std::isfinite(all.error));
  }
}
