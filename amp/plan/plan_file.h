// A plan as a file of JSON, {"tandem_plan": 1, …}. That of a task with several phases has what they share at
// its top, and under "phases" an object for each with its model, shapes, ops, casts and times.
#pragma once

#include <string>
#include <vector>

#include "amp/plan/precision_plan.h"

namespace tandem::amp::plan {

// Reads what plan_text wrote, or what somebody made of it. Throws UserError with `file`, the place in it and
// what is expected there for anything else: no JSON, another version, a key that is unknown, missing or
// twice, a type that is neither f32 nor the plan's, a negative time, an op twice, a cast of what is not in
// the plan's `ops` and no parameter or input, a phase twice or a list of fewer than two. There is one plan at
// least.
PhasePlans parse_plan(const std::string& text, const std::string& file);

// An op and a cast a line. Reading it gives the same plans. Throws InternalError for none, and for phases
// that differ in what they share.
std::string plan_text(const PhasePlans& phases);

// How two plans differ, by key.
struct PlanChange {
  enum class Kind : std::uint8_t { types, price, only_first, only_second, scale };
  Kind kind = Kind::types;
  OpKey key;         // of no op where it is the loss scale
  std::string text;  // "layer1.0.conv1 conv2d: bf16 → f32 (gain → accuracy)"

  bool operator==(const PlanChange&) const = default;
};

// In the order of the first plan, then what only the second has. Prices: where a time moved by more than a
// tenth of the first.
std::vector<PlanChange> differences(const PrecisionPlan& first, const PrecisionPlan& second);
// The same by phases, which go by their names: where there are several, a text begins with that of its phase,
// "generator: main.0 conv_transpose2d: …". And the loss scale, at first.
std::vector<PlanChange> differences(const PhasePlans& first, const PhasePlans& second);
// Whether they decide the same types: no change but of prices and of the loss scale.
bool same_types(const std::vector<PlanChange>& changes);

}  // namespace tandem::amp::plan
