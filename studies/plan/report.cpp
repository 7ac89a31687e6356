#include "studies/plan/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/units.h"
#include "files/output.h"
#include "report/table.h"
#include "train/calibrate.h"

namespace tandem::planning {

using amp::plan::Kind;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kShownOps = 10;

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string microseconds(double ns) { return fmt::format("{:.1f}", ns * 1e-3); }
std::string milliseconds(std::optional<std::int64_t> ns) {
  return ns ? fmt::format("{:.2f}", static_cast<double>(*ns) * 1e-6) : "";
}

OpLine line_of(const PlannedPhase& planned, const amp::plan::PrecisionPlan::PlannedOp& op, std::size_t node) {
  return {.op = to_string(op.key),
          .operands = op.operands ? std::string(name_of(*op.operands)) : "",
          .out = std::string(name_of(op.out)),
          .f32_ns = planned.measured.f32_ns[node],
          .low_ns = planned.measured.low_ns[node],
          .why = name_of(op.why)};
}

void keep_greatest(std::vector<OpLine>& lines) {
  std::ranges::stable_sort(lines, std::ranges::greater{},
                           [](const OpLine& line) { return line.f32_ns - line.low_ns; });
  lines.resize(std::min(lines.size(), kShownOps));
}

// Result of an op by key; null if there is none.
const amp::plan::Result* result_of(const amp::plan::Graph& graph, const amp::plan::OpKey& key, int output) {
  for (const amp::plan::Op& op : graph.ops)
    if (op.key == key && static_cast<std::size_t>(output) < op.results.size())
      return &op.results[static_cast<std::size_t>(output)];
  return nullptr;
}

void add_casts(const PlannedPhase& planned, Report& report) {
  for (const auto& cast : planned.plan.casts) {
    if (cast.how == amp::plan::How::working_copy) {
      ++report.working_copies;
      continue;
    }
    const amp::plan::Result* result = result_of(planned.measured.graph, cast.of, cast.output);
    const bool pays = cast.how == amp::plan::How::kernel || cast.how == amp::plan::How::once;
    report.casts.push_back({.of = to_string(cast.of),
                            .to = std::string(name_of(cast.to)),
                            .how = name_of(cast.how),
                            .consumers = cast.consumers,
                            .bytes = result && pays ? 6 * result->elements * (result->gradient ? 2 : 1) : 0,
                            .ns = cast.ns});
  }
}

}  // namespace

Report report_of(const PlannedPhase& planned) {
  Report report{.casts_of_rules = planned.casts_of_rules};
  const amp::plan::Graph& graph = planned.measured.graph;
  std::int64_t flop = 0, low_flop = 0, bytes = 0, low_bytes = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].kind != Kind::op) continue;
    const auto& op = planned.plan.ops[next++];
    const bool out = op.out != DType::f32, operands = op.operands.value_or(DType::f32) != DType::f32;
    flop += planned.measured.flop[i];
    if (operands) low_flop += planned.measured.flop[i];
    for (const auto& result : graph.ops[i].results) {
      if (graph.ops[i].view) continue;
      bytes += result.elements * (out ? 2 : 4);
      if (out) low_bytes += result.elements * 2;
    }
    const double gain = planned.measured.f32_ns[i] - planned.measured.low_ns[i];
    if (gain <= 0.0) continue;
    if (out || operands) {
      report.gains.push_back(line_of(planned, op, i));
    } else {
      report.missed.push_back(line_of(planned, op, i));
    }
  }
  keep_greatest(report.gains);
  keep_greatest(report.missed);
  add_casts(planned, report);
  report.flop_share = share(low_flop, flop);
  report.byte_share = share(low_bytes, bytes);
  return report;
}

namespace {

Json to_json(const std::vector<OpLine>& lines) {
  Json json = Json::array();
  for (const OpLine& line : lines)
    json.push_back({{"op", line.op},
                    {"operands", line.operands},
                    {"out", line.out},
                    {"f32_ns", line.f32_ns},
                    {"low_ns", line.low_ns},
                    {"why", line.why}});
  return json;
}

Json to_json(const Steps::Ratio& ratio) {
  return {{"low", ratio.low}, {"median", ratio.median}, {"high", ratio.high}};
}

Json to_json(const Steps& steps) {
  return {{"rounds", steps.rounds},
          {"f32_ms", 1e3 * steps.whole.f32},
          {"rules_ms", 1e3 * steps.whole.rules},
          {"plan_ms", 1e3 * steps.whole.plan},
          {"against_f32", to_json(steps.against_f32)},
          {"against_rules", to_json(steps.against_rules)}};
}

Json to_json(const Accuracy& accuracy) {
  return {{"limit", accuracy.limit},
          {"noise", accuracy.noise},
          {"error_before", accuracy.error_before},
          {"error", accuracy.error},
          {"runs", accuracy.runs},
          {"good", accuracy.search.good.size()},
          {"bad", accuracy.search.bad.size()},
          {"dropped", accuracy.search.dropped.size()}};
}

void print_ops(const char* title, const std::vector<OpLine>& lines, const std::string& low, bool reason) {
  if (lines.empty()) return;
  output::print("\n{}\n", title);
  report::Table table(reason ? std::vector<std::string>{"op", "why", "µs f32", "µs " + low, "saved"}
                             : std::vector<std::string>{"op", "types", "µs f32", "µs " + low, "saved"});
  table.right_from(2);
  for (const OpLine& line : lines)
    table.add({line.op,
               reason                  ? line.why
               : line.operands.empty() ? line.out
                                       : line.operands + " → " + line.out,
               microseconds(line.f32_ns), microseconds(line.low_ns),
               microseconds(line.f32_ns - line.low_ns)});
  table.print();
}

void print_casts(const Report& report) {
  output::print(
      "\ncasts of activations: {}, at level O1 {}; working copies of parameters: {}, written by the update\n",
      report.casts.size(), report.casts_of_rules, report.working_copies);
  if (report.casts.empty()) return;
  report::Table table({"of", "to", "by", "read by", "bytes", "µs"});
  table.right_from(3);
  for (const CastLine& cast : report.casts)
    table.add({cast.of, cast.to, cast.how, fmt::format("{}", cast.consumers),
               cast.bytes > 0 ? bytes_text(static_cast<double>(cast.bytes)) : "",
               microseconds(static_cast<double>(cast.ns))});
  table.print();
}

void print_times(const amp::plan::ArmTimes& predicted, const amp::plan::ArmTimes& measured) {
  report::Table table({"ms per step", "predicted", "measured"});
  table.right_from(1);
  table.add({"FP32", milliseconds(predicted.f32), milliseconds(measured.f32)});
  table.add({"level O1", milliseconds(predicted.rules), milliseconds(measured.rules)});
  table.add({"plan", milliseconds(predicted.plan), milliseconds(measured.plan)});
  table.print();
}

void print_ratios(const Planned& planned) {
  if (!planned.steps) return;
  const auto ratio = [](const Steps::Ratio& r) {
    return fmt::format("{:.3f} ({:.3f} to {:.3f})", r.median, r.low, r.high);
  };
  const Steps& steps = *planned.steps;
  if (planned.cut_against_rules) {
    output::print(
        "the cut was {} times as fast as level O1, so level O1's dtypes are kept, {} times as fast as FP32; "
        "median and quartiles of {} pairs\n",
        ratio(*planned.cut_against_rules), ratio(steps.against_f32), steps.rounds);
    return;
  }
  output::print(
      "the plan is {} times as fast as FP32 and {} times as fast as level O1; median and quartiles of {} "
      "pairs\n",
      ratio(steps.against_f32), ratio(steps.against_rules), steps.rounds);
  if (steps.slower_than_rules())
    output::print("the plan is slower than level O1: precision=amp_{} trains faster\n",
                  planned.phases.front().plan.dtype == DType::f16 ? "fp16" : "bf16");
}

// Sum over phases; absent if a phase has none.
amp::plan::ArmTimes total(const Planned& planned, amp::plan::ArmTimes amp::plan::PrecisionPlan::*times) {
  using Arm = std::optional<std::int64_t> amp::plan::ArmTimes::*;
  amp::plan::ArmTimes sum = planned.phases.front().plan.*times;
  for (std::size_t i = 1; i < planned.phases.size(); ++i) {
    const amp::plan::ArmTimes& own = planned.phases[i].plan.*times;
    for (const Arm arm : {&amp::plan::ArmTimes::f32, &amp::plan::ArmTimes::rules, &amp::plan::ArmTimes::low,
                          &amp::plan::ArmTimes::plan}) {
      if (sum.*arm && own.*arm) {
        *(sum.*arm) += *(own.*arm);
      } else {
        (sum.*arm).reset();
      }
    }
  }
  return sum;
}

Json arms_json(const amp::plan::ArmTimes& times) {
  const auto ns = [](std::optional<std::int64_t> value) { return value ? Json(*value) : Json(); };
  return {
      {"f32", ns(times.f32)}, {"rules", ns(times.rules)}, {"low", ns(times.low)}, {"plan", ns(times.plan)}};
}

void add_members(Json& json, const PlannedPhase& phase) {
  const Report report = report_of(phase);
  Json casts = Json::array();
  for (const CastLine& cast : report.casts)
    casts.push_back({{"of", cast.of},
                     {"to", cast.to},
                     {"how", cast.how},
                     {"consumers", cast.consumers},
                     {"bytes", cast.bytes},
                     {"ns", cast.ns}});
  json["gains"] = to_json(report.gains);
  json["missed"] = to_json(report.missed);
  json["casts"] = casts;
  json["casts_of_rules"] = report.casts_of_rules;
  json["working_copies"] = report.working_copies;
  json["flop_share"] = report.flop_share;
  json["byte_share"] = report.byte_share;
  if (phase.accuracy) json["accuracy"] = to_json(*phase.accuracy);
}

Json phase_json(const PlannedPhase& phase) {
  Json json{{"phase", phase.plan.model.phase},
            {"ops", phase.plan.ops.size()},
            {"rounds", phase.measured.rounds},
            {"predicted_ns", arms_json(phase.plan.predicted)},
            {"measured_ns", arms_json(phase.plan.measured)}};
  add_members(json, phase);
  return json;
}

void print_phase(const PlannedPhase& phase) {
  const Report report = report_of(phase);
  const std::string low(name_of(phase.plan.dtype));
  print_ops("greatest gains", report.gains, low, false);
  print_ops("in FP32 although faster in 16 bits", report.missed, low, true);
  print_casts(report);
  output::print("\nin 16 bits: {:.1f} % of the FLOP of products, {:.1f} % of the bytes that ops write\n",
                100.0 * report.flop_share, 100.0 * report.byte_share);
  if (!phase.accuracy) return;
  const Accuracy& accuracy = *phase.accuracy;
  output::print(
      "error of loss and gradient against FP32: {:.3g}, before the search {:.3g}; limit {:g}, noise {:.3g}; "
      "{} ops stay in FP32, found in {} steps\n",
      accuracy.error, accuracy.error_before, accuracy.limit, accuracy.noise,
      accuracy.search.bad.size() + accuracy.search.dropped.size(), accuracy.runs);
}

}  // namespace

Json to_json(const Planned& planned) {
  const PlannedPhase& first = planned.phases.front();
  const bool one = planned.phases.size() == 1;
  std::size_t ops = 0;
  for (const PlannedPhase& phase : planned.phases) ops += phase.plan.ops.size();
  Json json{{"policy", first.plan.policy.name},
            {"dtype", name_of(first.plan.dtype)},
            {"batch", first.plan.shapes.batch},
            {"ops", ops},
            {"device", first.plan.machine.device}};
  if (one) json["rounds"] = first.measured.rounds;
  json["predicted_ns"] = arms_json(total(planned, &amp::plan::PrecisionPlan::predicted));
  json["measured"] = planned.steps ? to_json(*planned.steps) : Json();
  json["cut_against_rules"] = planned.cut_against_rules ? to_json(*planned.cut_against_rules) : Json();
  if (planned.calibration) json["calibration"] = train::to_json(*planned.calibration);
  if (one) {
    add_members(json, first);
    return json;
  }
  json["phases"] = Json::array();
  for (const PlannedPhase& phase : planned.phases) json["phases"].push_back(phase_json(phase));
  return json;
}

void print(const std::string& name, const Planned& planned) {
  const auto& plan = planned.phases.front().plan;
  std::string ops;
  for (const PlannedPhase& phase : planned.phases)
    ops +=
        fmt::format("{}{} ops{}", ops.empty() ? "" : ", ", phase.plan.ops.size(), phase_suffix(phase.plan));
  output::print("{}: {}, batch {}, {}, policy {}{}; {}\n\n", name, ops, plan.shapes.batch,
                name_of(plan.dtype), plan.policy.name,
                plan.policy.rounding == amp::plan::Rounding::free ? ", free rounding" : "",
                plan.machine.device);
  print_times(total(planned, &amp::plan::PrecisionPlan::predicted),
              total(planned, &amp::plan::PrecisionPlan::measured));
  print_ratios(planned);
  if (planned.calibration) output::print("{}\n", to_string(*planned.calibration));
  for (const PlannedPhase& phase : planned.phases) {
    if (planned.phases.size() > 1) {
      output::print("\n{}\n\n", phase.plan.model.phase);
      print_times(phase.plan.predicted, phase.plan.measured);
    }
    print_phase(phase);
  }
}

}  // namespace tandem::planning
