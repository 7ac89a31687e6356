#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "amp/plan/plan_file.h"
#include "core/error.h"
#include "core/printable.h"

namespace tandem::amp::plan {

namespace {

constexpr double kMoved = 0.1;  // of the first price

using Key = std::tuple<std::string, std::string, int>;

Key key_of(const OpKey& key) { return {key.path, key.op, key.call}; }

// Types of operands and result: "bf16 → bf16".
std::string types_text(const PrecisionPlan::PlannedOp& op) {
  if (!op.operands) return std::string(name_of(op.out));
  return fmt::format("{} in {}", name_of(op.out), name_of(*op.operands));
}

std::string to_string(const std::optional<PrecisionPlan::Scale>& scale) {
  if (!scale) return "none";
  return fmt::format("2^{} (window 2^{} to 2^{})", scale->start, scale->window[0], scale->window[1]);
}

bool moved(std::int64_t first, std::int64_t second) {
  return std::abs(static_cast<double>(second) - static_cast<double>(first)) >
         kMoved * static_cast<double>(first);
}

void compare(const PrecisionPlan::PlannedOp& a, const PrecisionPlan::PlannedOp& b, DType low_a, DType low_b,
             std::vector<PlanChange>& changes) {
  const std::string name = to_string(a.key);
  if (a.out != b.out || a.operands != b.operands)
    changes.push_back({PlanChange::Kind::types, a.key,
                       fmt::format("{}: {} → {} ({} → {})", name, types_text(a), types_text(b),
                                   name_of(a.why), name_of(b.why))});
  std::string prices;
  if (moved(a.ns.f32, b.ns.f32)) prices += fmt::format(" f32 {} → {} ns", a.ns.f32, b.ns.f32);
  if (low_a == low_b && moved(a.ns.low, b.ns.low))
    prices += fmt::format("{} {} {} → {} ns", prices.empty() ? "" : ",", name_of(low_a), a.ns.low, b.ns.low);
  if (!prices.empty()) changes.push_back({PlanChange::Kind::price, a.key, name + ":" + prices});
}

}  // namespace

std::vector<PlanChange> differences(const PrecisionPlan& first, const PrecisionPlan& second) {
  std::map<Key, const PrecisionPlan::PlannedOp*> left;  // of the second plan
  for (const auto& op : second.ops) left.emplace(key_of(op.key), &op);
  std::vector<PlanChange> changes;
  for (const auto& op : first.ops) {
    const auto found = left.find(key_of(op.key));
    if (found == left.end()) {
      changes.push_back({PlanChange::Kind::only_first, op.key,
                         fmt::format("{}: only in the first plan, {}", to_string(op.key), types_text(op))});
      continue;
    }
    compare(op, *found->second, first.dtype, second.dtype, changes);
    left.erase(found);
  }
  for (const auto& op : second.ops)
    if (left.contains(key_of(op.key)))
      changes.push_back({PlanChange::Kind::only_second, op.key,
                         fmt::format("{}: only in the second plan, {}", to_string(op.key), types_text(op))});
  return changes;
}

std::vector<PlanChange> differences(const PhasePlans& first, const PhasePlans& second) {
  std::vector<PlanChange> changes;
  if (first.front().scale != second.front().scale)
    changes.push_back({PlanChange::Kind::scale,
                       {},
                       fmt::format("loss scale: {} → {}", to_string(first.front().scale),
                                   to_string(second.front().scale))});
  if (first.size() == 1 && second.size() == 1) {
    std::ranges::move(differences(first.front(), second.front()), std::back_inserter(changes));
    return changes;
  }
  const auto add = [&](const PrecisionPlan& a, const PrecisionPlan& b, const std::string& phase) {
    for (PlanChange& change : differences(a, b)) {
      change.text = fmt::format("{}: {}", printable(phase), change.text);
      changes.push_back(std::move(change));
    }
  };
  const auto named = [](const PhasePlans& phases, const PrecisionPlan& like) {
    return std::ranges::find(phases, like.model.phase, [](const auto& plan) { return plan.model.phase; });
  };
  for (const PrecisionPlan& plan : first) {
    const auto found = named(second, plan);
    add(plan, found == second.end() ? PrecisionPlan{} : *found, plan.model.phase);
  }
  for (const PrecisionPlan& plan : second)
    if (named(first, plan) == first.end()) add({}, plan, plan.model.phase);
  return changes;
}

bool same_types(const std::vector<PlanChange>& changes) {
  return std::ranges::all_of(changes, [](const PlanChange& change) {
    return change.kind == PlanChange::Kind::price || change.kind == PlanChange::Kind::scale;
  });
}

}  // namespace tandem::amp::plan
