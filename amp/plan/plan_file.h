// Precision plan as a JSON file, {"tandem_plan": 1, …}. With several phases, shared parts are at the top, and
// "phases" has an object for each with its model, shapes, ops, casts and times.
#pragma once

#include <string>
#include <vector>

#include "amp/plan/precision_plan.h"

namespace tandem::amp::plan {

// Reads the result of plan_text, possibly edited. Throws UserError with `file`, the place and the expected
// value for anything else: invalid JSON, another version, an unknown, missing or repeated key, a type that is
// neither f32 nor the plan's, a negative time, a repeated op, a cast of an op outside `ops` that is not a
// parameter or input, a repeated phase or a list of fewer than two. The result has at least one plan.
PhasePlans parse_plan(const std::string& text, const std::string& file);

// One op or cast per line; parse_plan inverts it. Throws InternalError for an empty list, and for phases with
// different shared parts.
std::string plan_text(const PhasePlans& phases);

// A difference between two plans, by key.
struct PlanChange {
  enum class Kind : std::uint8_t { types, price, only_first, only_second, scale };
  Kind kind = Kind::types;
  OpKey key;         // empty for the loss scale
  std::string text;  // "layer1.0.conv1 conv2d: bf16 → f32 (gain → accuracy)"

  bool operator==(const PlanChange&) const = default;
};

// In the order of the first plan, then ops that only the second has. Prices: times that differ by more than a
// tenth of the first.
std::vector<PlanChange> differences(const PrecisionPlan& first, const PrecisionPlan& second);
// The same for several phases, matched by name; with several, a text begins with the phase's name,
// "generator: main.0 conv_transpose2d: …". The loss scale comes first.
std::vector<PlanChange> differences(const PhasePlans& first, const PhasePlans& second);
// Whether both decide the same types: only prices and the loss scale differ.
bool same_types(const std::vector<PlanChange>& changes);

}  // namespace tandem::amp::plan
