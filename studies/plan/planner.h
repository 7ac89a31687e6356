// `tandem plan`: traces a configuration's step, measures its ops, solves for their types, predicts, and
// measures whole steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amp/plan/precision_plan.h"
#include "config/load.h"
#include "studies/plan/accuracy.h"
#include "studies/plan/measure.h"

namespace tandem::planning {

struct Request {
  std::string policy = "cut";  // one of plan::kPolicies
  amp::plan::Rounding rounding = amp::plan::Rounding::strict;
  std::vector<amp::plan::Must> must;
  double seconds = 10.0;        // for the measurement of ops, and again for that of steps
  std::optional<double> limit;  // of the search: relative error of loss and gradient
  bool measures_steps = true;
};

// Seconds of whole steps in f32, at level O1, and under the plan: medians of rounds in which each took its
// turn, and the plan's ratio to the others of its round.
struct Steps {
  struct Ratio {
    double low = 0.0, median = 0.0, high = 0.0;  // quartiles; above 1: the plan is faster
  };
  double f32 = 0.0, rules = 0.0, plan = 0.0;
  Ratio against_f32, against_rules;
  int rounds = 0;
};

struct Planned {
  amp::plan::PrecisionPlan plan;
  Measured measured;
  amp::plan::Assignment assignment;
  int casts_of_rules = 0;  // that level O1 puts into a forward
  std::optional<Steps> steps;
  std::optional<Accuracy> accuracy;  // of the search

  // Whether whole steps under it take longer than in f32.
  bool is_slower() const { return steps && steps->against_f32.median < 1.0; }
};

// Level O1 of the configuration's 16-bit type, which plans and advice start from. Throws UserError for lists,
// layers, 16-bit batch norm and other levels.
amp::Precision precision_of(const config::Loaded& loaded);

// Throws UserError for a precision that has no 16-bit type, a task with several phases, and as the policies.
Planned make_plan(const config::Loaded& loaded, const Request& request);

// What precision.plan: auto means: the cut, as a file. Says in one line what it decided.
std::string plan_at_start(const config::Loaded& loaded);

}  // namespace tandem::planning
