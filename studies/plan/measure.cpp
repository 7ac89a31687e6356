#include "studies/plan/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "amp/plan/rules.h"
#include "amp/planned_policy.h"
#include "core/backend.h"
#include "core/error.h"
#include "runs/environment.h"
#include "studies/compare/statistics.h"
#include "studies/plan/op_times.h"
#include "studies/profile/limits.h"

namespace tandem::planning {

using amp::plan::Assignment;
using amp::plan::Graph;
using amp::plan::Kind;
using amp::plan::Op;

namespace {

constexpr int kFewestTurns = 3, kMostTurns = 25;
constexpr int kCastRepeats = 7;

double nanoseconds(double seconds) { return seconds * 1e9; }

// Kinds of steps by the dtypes of operands and results: f32; 16 bits; kNarrowed has f32 operands and 16-bit
// results, kWidened the reverse.
enum Arm { kFull, kLow, kNarrowed, kWidened, kArms };

// Mean time of a cast in both directions, by number of elements.
class CastTimes {
 public:
  CastTimes(Backend& backend, DType low) : backend_(backend), low_(low) {}

  double ns(std::int64_t elements) {
    const auto known = known_.find(elements);
    if (known != known_.end()) return known->second;
    const Tensor wide = Tensor::zeros({elements}, {DType::f32, backend_.device(), MemoryKind::workspace});
    const Tensor narrow = Tensor::zeros({elements}, {low_, backend_.device(), MemoryKind::workspace});
    std::vector<double> times;
    for (int i = 0; i < kCastRepeats; ++i) {
      const std::uint64_t first = backend_.timestamp();
      backend_.cast(wide, narrow);
      backend_.cast(narrow, wide);
      times.push_back(backend_.seconds_between(first, backend_.timestamp()) / 2.0);
      backend_.clear_timestamps();
    }
    return known_[elements] = nanoseconds(compare::quantile(times, 0.5));
  }

 private:
  Backend& backend_;
  DType low_;
  std::map<std::int64_t, double> known_;
};

// Indices in the graph of ops with planned dtypes.
std::vector<std::size_t> planned_ops(const Graph& graph) {
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (graph.ops[i].kind == Kind::op && graph.ops[i].rule != CastRule::none) ops.push_back(i);
  return ops;
}

// Everything in 16 bits, except f32 operands of products that allow two dtypes.
Assignment narrowed(const Graph& graph) {
  Assignment assignment = amp::plan::low_precision(graph);
  for (std::size_t i = 0; i < assignment.size(); ++i)
    if (!graph.ops[i].one_type) assignment[i].operands = false;
  return assignment;
}

// Everything in f32, except 16-bit operands of products that allow two dtypes.
Assignment widened(const Graph& graph) {
  Assignment assignment = amp::plan::full_precision(graph);
  const Assignment low = amp::plan::low_precision(graph);
  for (std::size_t i = 0; i < assignment.size(); ++i)
    assignment[i].operands = low[i].operands && !graph.ops[i].one_type;
  return assignment;
}

// Lower quartiles by arm and op over the rounds.
struct Rounds {
  std::array<std::vector<double>, kArms> ops;  // seconds
  double whole = 0.0;                          // of an f32 step
  std::vector<std::int64_t> flop;
  int count = 0;
};

Rounds run_rounds(Subject& subject, const std::array<const amp::ResolvedPrecision*, kArms>& arms,
                  std::size_t ops, std::size_t phase, double seconds) {
  std::array<std::vector<std::vector<double>>, kArms> seen;
  std::vector<double> whole;
  Rounds rounds;
  for (auto& of_arm : seen) of_arm.resize(ops);
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int round = 0; round <= kMostTurns; ++round) {
    if (round > kFewestTurns && passed() > seconds) break;
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      const StepTimes times = time_step(subject, *arms[arm], phase);
      ensure(times.ops.size() == ops, "plan", "a step has {} ops, its trace {}", times.ops.size(), ops);
      if (round == 0) continue;  // warm-up: allocates memory and makes working copies
      for (std::size_t op = 0; op < ops; ++op) seen[arm][op].push_back(times.ops[op]);
      if (arm == kFull) {
        whole.push_back(times.whole);
        rounds.flop = times.flop;
      }
    }
    rounds.count = round;
  }
  for (std::size_t arm = 0; arm < kArms; ++arm)
    for (const auto& times : seen[arm]) rounds.ops[arm].push_back(lower_quartile(times));
  rounds.whole = lower_quartile(whole);
  return rounds;
}

// Distributes the measured times over the graph.
class Pricing {
 public:
  Pricing(Measured& measured, const amp::plan::DeadBand& band)
      : graph_(measured.graph), band_(band), low_(amp::plan::low_precision(graph_)) {}

  // The costs are exact for equal dtypes of operands and results, and for 16-bit operands with an f32 result
  // if that is slower. f32 operands with a 16-bit result may have a cost above the measured one: a cut cannot
  // represent costs by which two dtypes are cheaper than one (Energy::table).
  void product(std::size_t index, const std::array<double, kArms>& ns) {
    Op& op = graph_.ops[index];
    const double full = ns[kFull], low = ns[kLow];
    const double by_result =
        op.one_type ? 0.0 : without_noise(std::min(full - ns[kNarrowed], ns[kWidened] - low), full);
    const double widening = op.one_type ? 0.0 : without_noise(ns[kWidened] - low - by_result, full);
    op.ns = {std::llround(full - by_result), std::llround(low)};
    op.widening_ns = std::llround(widening);
    std::int64_t elements = 0;
    for (const auto& result : op.results) elements += result.elements;
    for (auto& result : op.results) result.storage_ns += share(by_result, result.elements, elements);
  }

  void other(std::size_t index, double full, double low) {
    Op& op = graph_.ops[index];
    const double saved = without_noise(full - low, full);
    std::vector<amp::plan::Result*> moved;
    std::int64_t elements = 0;
    const auto add = [&](std::size_t of, std::size_t result) {
      if (!low_[of].out) return;
      moved.push_back(&graph_.ops[of].results[result]);
      elements += moved.back()->elements;
    };
    for (const auto& read : op.reads)
      add(static_cast<std::size_t>(read.op), static_cast<std::size_t>(read.result));
    for (std::size_t r = 0; r < op.results.size(); ++r) add(index, r);
    const bool divides = elements > 0 && saved > 0.0;
    op.ns = {std::llround(divides ? full - saved : full), 0};
    if (!divides) return;
    for (amp::plan::Result* result : moved) result->storage_ns += share(saved, result->elements, elements);
  }

 private:
  double without_noise(double gain, double whole) const {
    const double width = std::max(static_cast<double>(band_.ns), band_.share * whole);
    return gain < width ? 0.0 : gain;
  }
  static std::int64_t share(double ns, std::int64_t part, std::int64_t whole) {
    return whole > 0 ? std::llround(ns * static_cast<double>(part) / static_cast<double>(whole)) : 0;
  }

  Graph& graph_;
  const amp::plan::DeadBand band_;
  const Assignment low_;
};

void price_casts(Graph& graph, Backend& backend, DType low, double bytes_per_second) {
  CastTimes casts(backend, low);
  // A working copy is written by the update, which has the master in registers.
  const auto copy_ns = [&](std::int64_t elements) {
    return 2e9 * static_cast<double>(elements) / bytes_per_second;
  };
  for (Op& op : graph.ops)
    for (amp::plan::Result& result : op.results)
      result.cast_ns = std::llround(op.kind == Kind::parameter
                                        ? copy_ns(result.elements)
                                        : casts.ns(result.elements) * (result.gradient ? 2.0 : 1.0));
}

amp::plan::PrecisionPlan::Machine machine_of(Backend& backend, DType low) {
  const auto environment = runs::environment();
  amp::plan::PrecisionPlan::Machine machine;
  machine.device = to_string(backend.device());
  if (backend.device() == Device{})
    machine.device +=
        fmt::format(" {} {}, {} threads", environment["cpu"]["model"].get<std::string>(),
                    environment["cpu"]["level"].get<std::string>(), environment["threads"].get<int>());
  for (const auto& [name, version] : environment["libraries"].items())
    machine.libraries[name] = version.is_string() ? version.get<std::string>() : version.dump();
  {
    profile::CopyLoad load(backend);
    machine.bytes_per_second = load.bytes() / load.seconds();
  }
  for (const DType type : {DType::f32, low})
    machine.flops[std::string(name_of(type))] = profile::product_rate(backend, type);
  machine.launch_ns = std::llround(CastTimes(backend, low).ns(1));
  return machine;
}

}  // namespace

double lower_quartile(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, at);
  return *at;
}

amp::plan::PrecisionPlan bare_plan(const Graph& graph, const Assignment& assignment, DType low, bool share) {
  const std::size_t ops = graph.ops.size();
  amp::plan::PrecisionPlan plan =
      amp::plan::plan_of(graph, assignment, std::vector<amp::plan::Why>(ops, amp::plan::Why::rule), low,
                         share, std::vector<bool>(ops));
  plan.policy.name = "rules";
  return plan;
}

amp::ResolvedPrecision runnable(const Graph& graph, const Assignment& assignment,
                                const amp::Precision& precision, bool share, nn::Module& model,
                                std::size_t phase) {
  amp::plan::PhasePlans phases(phase, {.dtype = precision.dtype});  // placeholders for earlier phases
  phases.push_back(bare_plan(graph, assignment, precision.dtype, share));
  return amp::ResolvedPrecision(
      std::make_shared<const amp::PlannedTypes>(std::move(phases), "the plan", precision, model));
}

Measured measure(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::TracedModel& traced,
                 const amp::Precision& precision, const MeasureOptions& options) {
  Measured measured{.graph = traced.graph};
  Graph& graph = measured.graph;
  Subject subject(loaded, data, precision);
  const amp::ResolvedPrecision full(amp::Precision::fp32());
  const auto resolved_with = [&](const Assignment& assignment) {
    return runnable(graph, assignment, precision, true, subject.model(), options.phase);
  };
  const amp::ResolvedPrecision low = resolved_with(amp::plan::low_precision(graph)),
                               to_low = resolved_with(narrowed(graph)),
                               to_f32 = resolved_with(widened(graph));
  const std::vector<std::size_t> ops = planned_ops(graph);
  const Rounds rounds =
      run_rounds(subject, {&full, &low, &to_low, &to_f32}, ops.size(), options.phase, options.seconds);
  measured.rounds = rounds.count;
  measured.measured.resize(graph.ops.size());
  measured.flop.resize(graph.ops.size());
  measured.f32_ns.resize(graph.ops.size());
  measured.low_ns.resize(graph.ops.size());
  Pricing pricing(measured, options.band);
  double in_ops = 0.0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t op = ops[i];
    measured.measured[op] = true;
    measured.flop[op] = rounds.flop[i];
    measured.f32_ns[op] = nanoseconds(rounds.ops[kFull][i]);
    measured.low_ns[op] = nanoseconds(rounds.ops[kLow][i]);
    in_ops += measured.f32_ns[op];
    if (is_product(graph.ops[op])) {
      std::array<double, kArms> ns{};
      for (std::size_t arm = 0; arm < kArms; ++arm) ns[arm] = nanoseconds(rounds.ops[arm][i]);
      pricing.product(op, ns);
    } else {
      pricing.other(op, measured.f32_ns[op], measured.low_ns[op]);
    }
  }
  measured.rest_ns = std::llround(std::max(0.0, nanoseconds(rounds.whole) - in_ops));
  measured.machine = options.machine ? *options.machine : machine_of(subject.backend(), precision.dtype);
  price_casts(graph, subject.backend(), precision.dtype, measured.machine.bytes_per_second);
  return measured;
}

}  // namespace tandem::planning
