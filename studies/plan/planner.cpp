#include "studies/plan/planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "amp/plan/cut.h"
#include "amp/plan/pai_policy.h"
#include "amp/plan/plan_file.h"
#include "amp/plan/prediction.h"
#include "amp/plan/rules.h"
#include "amp/plan/tf_policy.h"
#include "config/task.h"
#include "core/error.h"
#include "files/output.h"
#include "runs/run_data.h"
#include "studies/compare/statistics.h"
#include "studies/plan/subject.h"
#include "tasks/skipped_samples.h"
#include "train/calibrate.h"
#include "train/planned.h"
#include "train/setup.h"

namespace tandem::planning {

using amp::plan::Assignment;
using amp::plan::Graph;
using amp::plan::Why;

namespace {

constexpr int kFewestRounds = 5, kMostRounds = 60;

}  // namespace

amp::Precision precision_of(const config::Loaded& loaded) {
  amp::Precision precision = train::precision_of(loaded.config);
  const bool fp16 = loaded.config.precision.dtype == "fp16";
  if (!precision.lowers()) precision = fp16 ? amp::Precision::amp_fp16() : amp::Precision::amp_bf16();
  require(precision.is_plain_o1(), "plan",
          "precision {}: a plan starts from level O1 without lists, layers and 16-bit batch norm; set "
          "precision=amp_bf16, and pin ops with --must",
          loaded.config.precision.label());
  return precision;
}

namespace {

// The configuration without its plan: the graph must not depend on it.
config::Loaded without_plan(config::Loaded loaded) {
  loaded.config.precision.plan.reset();
  loaded.plan.clear();
  return loaded;
}

// Opens the data, since model sizes may depend on it.
tasks::DataPtr data_of(const config::Config& config) {
  try {
    return runs::open_data(config, [](const std::string& reason) { tasks::warn_of_skipped(reason); });
  } catch (const UserError& error) {
    output::remark("the data cannot be read ({}): the plan is for a model with default sizes\n",
                   error.what());
    return runs::describe_data(config);
  }
}

Assignment solved(const Graph& graph, const Request& request) {
  const amp::plan::Freedom freedom{.rounding = request.rounding};
  if (request.policy == "rules") return amp::plan::rules(graph);
  if (request.policy == "colours")
    return amp::plan::allowed_types(graph, amp::plan::tf_policy(graph, amp::plan::op_lists(graph)).allow);
  if (request.policy == "growth") return amp::plan::allowed_types(graph, amp::plan::priced_growth(graph));
  return amp::plan::cut(graph, freedom);
}

Steps::Ratio quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {.low = at(0.25), .median = compare::quantile(values, 0.5), .high = at(0.75)};
}

// Times of one kind of step, by phase and in total.
struct ArmSeconds {
  std::vector<std::vector<double>> phases;
  std::vector<double> whole;

  void add(const std::vector<double>& step) {
    phases.resize(step.size());
    for (std::size_t phase = 0; phase < step.size(); ++phase) phases[phase].push_back(step[phase]);
    whole.push_back(std::accumulate(step.begin(), step.end(), 0.0));
  }
};

// A round has a step of each kind, in rotating order.
Steps measure_steps(const config::Loaded& loaded, const tasks::DataPtr& data,
                    const amp::plan::PhasePlans& phases, const amp::Precision& precision, double seconds) {
  std::array<std::unique_ptr<Subject>, 3> subjects;
  for (auto& subject : subjects) subject = std::make_unique<Subject>(loaded, data, precision);
  subjects[0] = std::make_unique<Subject>(loaded, data, amp::Precision::fp32());
  const amp::ResolvedPrecision full(amp::Precision::fp32());
  const amp::ResolvedPrecision rules(precision, subjects[1]->model());
  const amp::ResolvedPrecision planned(
      std::make_shared<const amp::PlannedTypes>(phases, "the plan", precision, subjects[2]->model()));
  const std::array<const amp::ResolvedPrecision*, 3> arms{&full, &rules, &planned};
  std::array<ArmSeconds, 3> times;
  std::vector<double> against_full, against_rules, rules_against_full;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (std::size_t arm = 0; arm < 3; ++arm)
    for (int i = 0; i < 2; ++i) subjects[arm]->step(*arms[arm]);
  int round = 0;
  for (; round < kMostRounds && (round < kFewestRounds || passed() < seconds); ++round) {
    for (std::size_t turn = 0; turn < 3; ++turn) {
      const std::size_t arm = (turn + static_cast<std::size_t>(round)) % 3;
      times[arm].add(subjects[arm]->step(*arms[arm]));
    }
    against_full.push_back(times[0].whole.back() / times[2].whole.back());
    against_rules.push_back(times[1].whole.back() / times[2].whole.back());
    rules_against_full.push_back(times[0].whole.back() / times[1].whole.back());
  }
  Steps steps{.whole = {lower_quartile(times[0].whole), lower_quartile(times[1].whole),
                        lower_quartile(times[2].whole)},
              .against_f32 = quartiles(against_full),
              .against_rules = quartiles(against_rules),
              .rules_against_f32 = quartiles(rules_against_full),
              .rounds = round};
  for (std::size_t phase = 0; phase < phases.size(); ++phase)
    steps.phases.push_back({lower_quartile(times[0].phases[phase]), lower_quartile(times[1].phases[phase]),
                            lower_quartile(times[2].phases[phase])});
  return steps;
}

std::int64_t ns_of(double seconds) { return std::llround(seconds * 1e9); }

void add_rest(std::optional<std::int64_t>& ns, std::int64_t rest) {
  if (ns) *ns += rest;
}

// Pins of this phase: those that match it, and those that match none, which are then refused.
std::vector<amp::plan::Must> musts_of(const std::vector<amp::TracedModel>& traced, std::size_t phase,
                                      const std::vector<amp::plan::Must>& musts) {
  std::vector<amp::plan::Must> own;
  for (const amp::plan::Must& must : musts) {
    const bool matches_any = std::ranges::any_of(
        traced, [&](const amp::TracedModel& model) { return amp::plan::matches(model.graph, must); });
    if (!matches_any || amp::plan::matches(traced[phase].graph, must)) own.push_back(must);
  }
  return own;
}

void describe(amp::plan::PrecisionPlan& plan, const amp::TracedModel& traced, const Request& request,
              const PlannedPhase& phase, const std::string& name, Index batch) {
  plan.model.digest = traced.model_digest();
  plan.model.phase = name;
  plan.shapes = {.digest = traced.shapes_digest(), .batch = batch};
  plan.machine = phase.measured.machine;
  plan.policy = {.name = request.policy,
                 .rounding = request.rounding,
                 .lambda = 0.0,
                 .dead_band_ns = amp::plan::DeadBand{}.ns};
  for (const auto& must : request.must)
    plan.policy.must.emplace_back(must.match, must.low ? plan.dtype : DType::f32);
  for (auto* arm : {&plan.predicted.f32, &plan.predicted.rules, &plan.predicted.low, &plan.predicted.plan})
    add_rest(*arm, phase.measured.rest_ns);
}

amp::plan::PrecisionPlan::Scale scale_of(const amp::Calibration& calibration,
                                         const optim::ScalerOptions& scaler) {
  using amp::plan::PrecisionPlan;
  return {
      .start = amp::start_of(calibration, scaler),
      .window = {calibration.window.low, std::min(calibration.window.high, PrecisionPlan::kMostExponent)}};
}

void search_phase(PlannedPhase& phase, const config::Loaded& loaded, const Request& request,
                  const amp::Precision& precision, std::size_t number) {
  Graph& graph = phase.measured.graph;
  phase.accuracy = search_types(loaded, graph, phase.assignment, precision,
                                request.limit.value_or(usual_limit(precision.dtype)), number);
  std::vector<int> spoiled;
  for (const int op : amp::plan::lowered(graph, phase.assignment))
    if (std::ranges::find(phase.accuracy->search.good, op) == phase.accuracy->search.good.end())
      spoiled.push_back(op);
  std::vector<int> good = phase.accuracy->search.good;
  std::ranges::sort(good);
  phase.assignment = amp::plan::restricted(graph, phase.assignment, good);
  graph = amp::plan::without(std::move(graph), spoiled);
}

void note_steps(Planned& planned) {
  for (std::size_t i = 0; i < planned.phases.size(); ++i) {
    const Steps::Seconds& seconds = planned.steps->phases[i];
    planned.phases[i].plan.measured = {
        .f32 = ns_of(seconds.f32), .rules = ns_of(seconds.rules), .plan = ns_of(seconds.plan)};
  }
}

}  // namespace

amp::plan::PhasePlans Planned::plans() const {
  amp::plan::PhasePlans plans;
  for (const PlannedPhase& phase : phases) plans.push_back(phase.plan);
  return plans;
}

void keep_faster(Planned& planned, const Request& request) {
  if (!planned.steps || !planned.steps->slower_than_rules()) return;
  if (request.policy != "cut" || !request.must.empty()) return;
  for (PlannedPhase& phase : planned.phases) {
    const Graph& graph = phase.measured.graph;
    const amp::plan::PrecisionPlan cut = std::move(phase.plan);
    phase.assignment = amp::plan::rules(graph);
    phase.plan = amp::plan::plan_of(graph, phase.assignment,
                                    amp::plan::reasons(graph, phase.assignment, {}, /*by_lists=*/true),
                                    cut.dtype, /*share=*/false, phase.measured.measured);
    phase.plan.model = cut.model;
    phase.plan.shapes = cut.shapes;
    phase.plan.machine = cut.machine;
    phase.plan.policy = cut.policy;
    phase.plan.scale = cut.scale;
    phase.plan.predicted = {.f32 = cut.predicted.f32,
                            .rules = cut.predicted.rules,
                            .low = cut.predicted.low,
                            .plan = cut.predicted.rules};
  }
  Steps& steps = *planned.steps;
  planned.cut_against_rules = steps.against_rules;
  steps.whole.plan = steps.whole.rules;
  for (Steps::Seconds& phase : steps.phases) phase.plan = phase.rules;
  steps.against_rules = {.low = 1.0, .median = 1.0, .high = 1.0};
  steps.against_f32 = steps.rules_against_f32;
}

Planned make_plan(const config::Loaded& given, const Request& request) {
  const config::Loaded loaded = without_plan(given);
  const amp::Precision precision = precision_of(loaded);
  const tasks::DataPtr data = data_of(loaded.config);
  const std::vector<std::string> names = train::planned_phases(loaded, data);
  std::vector<amp::TracedModel> traced;
  for (std::size_t phase = 0; phase < names.size(); ++phase)
    traced.push_back(train::trace_of(loaded, data, phase));
  for (std::size_t phase = 0; phase < names.size(); ++phase)  // refuses pins before anything is measured
    amp::plan::pinned(traced[phase].graph, musts_of(traced, phase, request.must));
  const Index batch = train::planned_batch(loaded, data);
  const bool by_lists = request.policy != "cut" && request.policy != "search";
  const bool shares = request.policy != "rules";  // which keeps the bits of autocast
  Planned planned;
  if (request.calibrates && loaded.config.precision.scaler.mode == "calibrated" &&
      data->training_samples() > 0)
    planned.calibration = train::calibrate(loaded, data, {});
  for (std::size_t number = 0; number < names.size(); ++number) {
    MeasureOptions options{.seconds = request.seconds / static_cast<double>(names.size()), .phase = number};
    if (number > 0) options.machine = planned.phases.front().measured.machine;
    PlannedPhase phase{.measured = measure(loaded, data, traced[number], precision, options)};
    Graph& graph = phase.measured.graph;
    graph =
        amp::plan::without_noise(amp::plan::pinned(std::move(graph), musts_of(traced, number, request.must)));
    phase.assignment = solved(graph, request);
    if (request.policy == "search") search_phase(phase, loaded, request, precision, number);
    phase.plan = amp::plan::plan_of(
        graph, phase.assignment,
        amp::plan::reasons(graph, phase.assignment, {.rounding = request.rounding}, by_lists),
        precision.dtype, shares, phase.measured.measured);
    phase.casts_of_rules = static_cast<int>(std::ranges::count_if(
        amp::plan::predict(graph, amp::plan::rules(graph), /*share=*/false).casts,
        [&](const auto& cast) { return graph.at(cast.op).kind != amp::plan::Kind::parameter; }));
    describe(phase.plan, traced[number], request, phase, names[number], batch);
    if (planned.calibration) phase.plan.scale = scale_of(*planned.calibration, precision.scaler);
    planned.phases.push_back(std::move(phase));
  }
  if (!request.measures_steps) return planned;
  planned.steps = measure_steps(loaded, data, planned.plans(), precision, request.seconds);
  keep_faster(planned, request);
  note_steps(planned);
  return planned;
}

std::string plan_at_start(const config::Loaded& loaded) {
  // The run calibrates the loss scale itself, and stores the windows of every layer.
  const Planned planned = make_plan(loaded, {.seconds = 5.0, .calibrates = false});
  const amp::plan::PhasePlans plans = planned.plans();
  std::size_t ops = 0, low = 0;
  double predicted = 0.0, in_f32 = 0.0;  // ns
  for (const amp::plan::PrecisionPlan& plan : plans) {
    ops += plan.ops.size();
    low += static_cast<std::size_t>(std::ranges::count_if(plan.ops, [](const auto& op) {
      return op.out != DType::f32 || op.operands.value_or(DType::f32) != DType::f32;
    }));
    predicted += static_cast<double>(plan.predicted.plan.value_or(0));
    in_f32 += static_cast<double>(plan.predicted.f32.value_or(0));
  }
  const Steps::Seconds& seconds = planned.steps->whole;
  output::remark(
      "plan: {} of {} ops in {}; predicted {:.2f} ms per step, {:.2f} in FP32; measured {:.2f}, {:.2f} in "
      "FP32{}\n",
      low, ops, name_of(plans.front().dtype), predicted * 1e-6, in_f32 * 1e-6, 1e3 * seconds.plan,
      1e3 * seconds.f32,
      planned.cut_against_rules
          ? fmt::format("; uses level O1's dtypes, since the cut was {:.3f} times as fast",
                        planned.cut_against_rules->median)
          : "");
  return amp::plan::plan_text(plans);
}

}  // namespace tandem::planning
