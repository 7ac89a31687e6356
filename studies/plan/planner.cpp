#include "studies/plan/planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "amp/plan/colours.h"
#include "amp/plan/cut.h"
#include "amp/plan/growth.h"
#include "amp/plan/plan_file.h"
#include "amp/plan/prediction.h"
#include "amp/plan/rules.h"
#include "config/task.h"
#include "core/error.h"
#include "files/output.h"
#include "studies/plan/subject.h"
#include "tasks/skipped_samples.h"
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
  require(
      precision.level == amp::Level::O1 && precision.layers.empty() && precision.lists.allow.empty() &&
          precision.lists.deny.empty() && precision.lists.infer.empty() && !precision.lower_batch_norm,
      "plan",
      "precision {}: a plan starts from level O1 without lists, layers and 16-bit batch norm; say so with "
      "precision=amp_bf16, and pin ops with --must",
      loaded.config.precision.label());
  return precision;
}

namespace {

// The plan is of the forward, whatever the configuration says of one.
config::Loaded without_plan(config::Loaded loaded) {
  loaded.config.precision.plan.reset();
  loaded.plan.clear();
  return loaded;
}

// Sizes of models may follow from their data.
tasks::DataPtr data_of(const config::Config& config) {
  try {
    return config::open_data(config, [](const std::string& reason) { tasks::warn_of_skipped(reason); });
  } catch (const UserError& error) {
    output::remark("the data cannot be read ({}): the plan is of a model of usual sizes\n", error.what());
    return config::describe_data(config);
  }
}

Assignment solved(const Graph& graph, const Request& request) {
  const amp::plan::Freedom freedom{.rounding = request.rounding};
  if (request.policy == "rules") return amp::plan::rules(graph);
  if (request.policy == "colours")
    return amp::plan::painted_types(graph, amp::plan::colours(graph, amp::plan::paints(graph)).allow);
  if (request.policy == "growth") return amp::plan::painted_types(graph, amp::plan::priced_growth(graph));
  return amp::plan::cut(graph, freedom);
}

Steps::Ratio quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {.low = at(0.25), .median = median(values), .high = at(0.75)};
}

// A round is a step of each, the order turning.
Steps measure_steps(const config::Loaded& loaded, const tasks::DataPtr& data,
                    const amp::plan::PrecisionPlan& plan, const amp::Precision& precision, double seconds) {
  std::array<std::unique_ptr<Subject>, 3> subjects;
  for (auto& subject : subjects) subject = std::make_unique<Subject>(loaded, data, precision);
  subjects[0] = std::make_unique<Subject>(loaded, data, amp::Precision::fp32());
  const amp::Plan full(amp::Precision::fp32());
  const amp::Plan rules(precision, subjects[1]->model());
  const amp::Plan planned(
      std::make_shared<const amp::PlannedTypes>(plan, "the plan", precision, subjects[2]->model()));
  const std::array<const amp::Plan*, 3> plans{&full, &rules, &planned};
  std::array<std::vector<double>, 3> times;
  std::vector<double> against_full, against_rules;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (std::size_t arm = 0; arm < 3; ++arm)
    for (int i = 0; i < 2; ++i) subjects[arm]->step(*plans[arm]);
  for (int round = 0; round < kMostRounds && (round < kFewestRounds || passed() < seconds); ++round) {
    for (std::size_t turn = 0; turn < 3; ++turn) {
      const std::size_t arm = (turn + static_cast<std::size_t>(round)) % 3;
      times[arm].push_back(subjects[arm]->step(*plans[arm]));
    }
    against_full.push_back(times[0].back() / times[2].back());
    against_rules.push_back(times[1].back() / times[2].back());
  }
  return {.f32 = median(times[0]),
          .rules = median(times[1]),
          .plan = median(times[2]),
          .against_f32 = quartiles(against_full),
          .against_rules = quartiles(against_rules),
          .rounds = static_cast<int>(times[0].size())};
}

std::int64_t ns_of(double seconds) { return std::llround(seconds * 1e9); }

void add_rest(std::optional<std::int64_t>& ns, std::int64_t rest) {
  if (ns) *ns += rest;
}

void describe(amp::plan::PrecisionPlan& plan, const amp::TracedModel& traced, const Request& request,
              const Measured& measured, const amp::Precision& precision, Index batch) {
  plan.model.digest = traced.model_digest();
  plan.shapes = {.digest = traced.shapes_digest(), .batch = batch};
  plan.machine = measured.machine;
  plan.policy = {.name = request.policy,
                 .rounding = request.rounding,
                 .must = {},
                 .lambda = 0.0,
                 .dead_band_ns = amp::plan::DeadBand{}.ns};
  for (const auto& must : request.must)
    plan.policy.must.emplace_back(must.match, must.low ? precision.dtype : DType::f32);
  for (auto* arm : {&plan.predicted.f32, &plan.predicted.rules, &plan.predicted.low, &plan.predicted.plan})
    add_rest(*arm, measured.rest_ns);
}

}  // namespace

Planned make_plan(const config::Loaded& given, const Request& request) {
  const config::Loaded loaded = without_plan(given);
  const amp::Precision precision = precision_of(loaded);
  const tasks::DataPtr data = data_of(loaded.config);
  const amp::TracedModel traced = train::trace_of(loaded, data);
  amp::plan::pinned(traced.graph, request.must);  // what it pins is told before anything is measured
  Planned planned{.measured = measure(loaded, data, traced, precision, request.seconds)};
  Graph& graph = planned.measured.graph;
  graph = amp::plan::without_noise(amp::plan::pinned(std::move(graph), request.must));
  planned.assignment = solved(graph, request);
  if (request.policy == "search") {
    planned.accuracy = search_types(loaded, graph, planned.assignment, precision,
                                    request.limit.value_or(usual_limit(precision.dtype)));
    std::vector<int> spoiled;
    for (const int op : amp::plan::lowered(graph, planned.assignment))
      if (std::ranges::find(planned.accuracy->search.good, op) == planned.accuracy->search.good.end())
        spoiled.push_back(op);
    std::vector<int> good = planned.accuracy->search.good;
    std::ranges::sort(good);
    planned.assignment = amp::plan::restricted(graph, planned.assignment, good);
    graph = amp::plan::without(std::move(graph), spoiled);
  }
  const bool by_lists = request.policy != "cut" && request.policy != "search";
  const bool shares = request.policy != "rules";  // which has autocast's bits
  planned.plan = amp::plan::plan_of(
      graph, planned.assignment,
      amp::plan::reasons(graph, planned.assignment, {.rounding = request.rounding}, by_lists),
      precision.dtype, shares, planned.measured.measured);
  planned.casts_of_rules = static_cast<int>(std::ranges::count_if(
      amp::plan::predict(graph, amp::plan::rules(graph), /*share=*/false).casts,
      [&](const auto& cast) { return graph.at(cast.op).kind != amp::plan::Kind::parameter; }));
  Index batch = loaded.config.data.batch_size;
  if (data->training_samples() > 0) batch = std::min(batch, data->training_samples());
  describe(planned.plan, traced, request, planned.measured, precision, batch);
  if (request.measures_steps) {
    planned.steps = measure_steps(loaded, data, planned.plan, precision, request.seconds);
    planned.plan.measured = {.f32 = ns_of(planned.steps->f32),
                             .rules = ns_of(planned.steps->rules),
                             .low = {},
                             .plan = ns_of(planned.steps->plan)};
  }
  return planned;
}

std::string plan_at_start(const config::Loaded& loaded) {
  const Planned planned = make_plan(loaded, {.seconds = 5.0, .measures_steps = false});
  const amp::plan::PrecisionPlan& plan = planned.plan;
  const auto low = std::ranges::count_if(plan.ops, [](const auto& op) {
    return op.out != DType::f32 || op.operands.value_or(DType::f32) != DType::f32;
  });
  output::remark("plan: {} of {} ops in {}; predicted {:.2f} ms a step, {:.2f} in FP32\n", low,
                 plan.ops.size(), name_of(plan.dtype),
                 static_cast<double>(plan.predicted.plan.value_or(0)) * 1e-6,
                 static_cast<double>(plan.predicted.f32.value_or(0)) * 1e-6);
  return amp::plan::plan_text(plan);
}

}  // namespace tandem::planning
