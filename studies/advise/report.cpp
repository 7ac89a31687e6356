#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/units.h"
#include "files/output.h"
#include "report/table.h"
#include "studies/advise/advise.h"

namespace tandem::advise {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 20;

Json to_json(const OpAdvice& op) {
  Json json{{"path", op.key.path},
            {"op", op.key.op},
            {"call", op.key.call},
            {"f32_ns", op.f32_ns},
            {"low_ns", op.low_ns},
            {"f32_estimate_ns", op.f32_estimate_ns},
            {"low_estimate_ns", op.low_estimate_ns},
            {"bound", name_of(op.bound)},
            {"low_bound", name_of(op.low_bound)}};
  if (op.size)
    json["product"] = {{"m", op.size->m},
                       {"n", op.size->n},
                       {"k", op.size->k},
                       {"count", op.size->count},
                       {"tensor_cores", op.tensor_cores},
                       {"amx", op.amx}};
  return json;
}

Json to_json(const ShapeChange& change) {
  return {{"layer", change.layer},
          {"inputs", {change.inputs, change.new_inputs}},
          {"outputs", {change.outputs, change.new_outputs}},
          {"saved_us", change.saved_us},
          {"added_bytes", change.added_bytes},
          {"how", change.how}};
}

std::string share(double part) { return part < 1.0 ? fmt::format("{:.0f} %", 100.0 * part) : "yes"; }

void print_ops(const Advice& advice) {
  std::vector<OpAdvice> ops = advice.ops;
  std::ranges::stable_sort(ops, std::ranges::greater{}, &OpAdvice::f32_ns);
  report::Table table({"op", "FP32, µs", advice.dtype + ", µs", "bound", "in " + advice.dtype, "m n k",
                       "tensor cores", "AMX"});
  for (std::size_t i = 0; i < std::min(ops.size(), kShown); ++i) {
    const OpAdvice& op = ops[i];
    const std::string size = op.size ? fmt::format("{} {} {}", op.size->m, op.size->n, op.size->k) : "";
    table.add({to_string(op.key), fmt::format("{:.0f}", 1e-3 * op.f32_ns),
               fmt::format("{:.0f}", 1e-3 * op.low_ns), name_of(op.bound), name_of(op.low_bound), size,
               op.size ? share(op.tensor_cores) : "", op.size ? share(op.amx) : ""});
  }
  table.print();
  if (ops.size() > kShown) output::print("and {} more ops; --json lists all\n", ops.size() - kShown);
}

void print_changes(const Advice& advice) {
  if (advice.changes.empty()) {
    output::print("sizes: no layer is faster if its channels or features are multiples of 8\n");
    return;
  }
  report::Table table({"layer", "inputs", "outputs", "saves, µs", "adds", "how"});
  for (const ShapeChange& change : advice.changes)
    table.add({change.layer, fmt::format("{} → {}", change.inputs, change.new_inputs),
               fmt::format("{} → {}", change.outputs, change.new_outputs),
               fmt::format("{:.0f}", change.saved_us), bytes_text(static_cast<double>(change.added_bytes)),
               change.how});
  table.print();
}

void print_batch(const Advice& advice) {
  if (!advice.batch_advice)
    output::print(
        "batch {}: no batch brings a product to {:.0f} FLOP per byte, above which it would not be "
        "memory-bound\n",
        advice.batch, advice.ridge);
  else
    output::print(
        "batch {}: with {}, products with {:.0f} % of the FLOP reach {:.0f} FLOP per byte, above which they "
        "are not memory-bound{}\n",
        advice.batch, advice.batch_advice->batch, 100.0 * advice.batch_advice->reached, advice.ridge,
        advice.most > 0 ? fmt::format("; at most {} fit in memory", advice.most) : "");
}

Json advice_json(const Advice& advice) {
  const auto list = [](const auto& items) {
    Json json = Json::array();
    for (const auto& item : items) json.push_back(to_json(item));
    return json;
  };
  Json lint = Json::array();
  for (const amp::LintLine& line : advice.lint)
    lint.push_back({{"rule", name_of(line.rule)},
                    {"path", line.key.path},
                    {"op", line.key.op},
                    {"call", line.key.call},
                    {"value", line.value},
                    {"dtype", tandem::name_of(line.dtype)},
                    {"what", line.what},
                    {"way_out", line.way_out}});
  const auto rates = [](const Rates& of) {
    return Json{
        {"flops", of.flops}, {"bytes_per_second", of.bytes_per_second}, {"overhead_ns", 1e9 * of.overhead}};
  };
  Json json{{"dtype", advice.dtype},
            {"f32", rates(advice.f32)},
            {"low", rates(advice.low)},
            {"unit", advice.unit},
            {"step",
             {{"f32_ms", advice.f32_ms},
              {"closure", advice.closure},
              {"compute", advice.shares.compute},
              {"memory", advice.shares.memory},
              {"overhead", advice.shares.overhead},
              {"factor", advice.factor},
              {"expected", advice.expected},
              {"bound", advice.bound}}},
            {"batch",
             {{"now", advice.batch}, {"advised", nullptr}, {"ridge", advice.ridge}, {"most", advice.most}}},
            {"ops", list(advice.ops)},
            {"worst", list(advice.worst)},
            {"changes", list(advice.changes)},
            {"lint", lint}};
  if (advice.batch_advice) {
    json["batch"]["advised"] = advice.batch_advice->batch;
    json["batch"]["reached"] = advice.batch_advice->reached;
  }
  return json;
}

void print_advice(const std::string& name, const Advice& advice) {
  output::print("{}: a step of {:.1f} ms in FP32; {} is multiplied {}\n\n", name, advice.f32_ms, advice.dtype,
                advice.unit.empty() ? "in FP32 after widening" : "by " + advice.unit);
  print_ops(advice);
  output::print("\n");
  print_changes(advice);
  print_batch(advice);
  output::print(
      "step: {:.0f} % bound by products, {:.0f} % by memory, {:.0f} % overhead and host; {:.1f} × faster "
      "products and half the bytes give a speedup of {:.2f} ×, products alone at most {:.2f} × (Amdahl)\n",
      100.0 * advice.shares.compute, 100.0 * advice.shares.memory, 100.0 * advice.shares.overhead,
      advice.factor, advice.expected, advice.bound);
  output::print(
      "measured: ops and the rest add up to whole steps within {:.1f} %; estimates in {} are worst for",
      100.0 * std::abs(advice.closure), advice.dtype);
  for (std::size_t i = 0; i < advice.worst.size(); ++i)
    output::print("{} {} ({:.0f} µs, estimated {:.0f})", i == 0 ? "" : ",", to_string(advice.worst[i].key),
                  1e-3 * advice.worst[i].low_ns, 1e-3 * advice.worst[i].low_estimate_ns);
  output::print("\n");
}

}  // namespace

Json to_json(const std::vector<Advice>& phases) {
  if (phases.size() == 1) return advice_json(phases.front());
  Json all = Json::array();
  for (const Advice& advice : phases) {
    Json json = advice_json(advice);
    json["phase"] = advice.phase;
    all.push_back(std::move(json));
  }
  return {{"phases", all}};
}

void print(const std::string& name, const std::vector<Advice>& phases) {
  for (const Advice& advice : phases) {
    print_advice(phases.size() == 1 ? name : fmt::format("{}, {}", name, advice.phase), advice);
    if (&advice != &phases.back()) output::print("\n");
  }
  const Advice& last = phases.back();
  if (last.lint.empty()) output::print("lint: {} can represent all values\n", last.dtype);
  for (const amp::LintLine& line : last.lint) output::print("lint: {}\n", to_string(line));
}

}  // namespace tandem::advise
