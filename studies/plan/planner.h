// `tandem plan`: traces a configuration's step, measures its ops, solves for their types, predicts, and
// measures whole steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amp/calibration.h"
#include "amp/plan/precision_plan.h"
#include "config/load.h"
#include "studies/plan/accuracy.h"
#include "studies/plan/measure.h"

namespace tandem::planning {

struct Request {
  std::string policy = "cut";  // one of plan::kPolicies
  amp::plan::Rounding rounding = amp::plan::Rounding::strict;
  std::vector<amp::plan::Must> must;
  double seconds = 10.0;        // for the measurement of ops, of all phases, and again for that of steps
  std::optional<double> limit;  // of the search: relative error of loss and gradient
  bool measures_steps = true;
  // Whether the loss scale is looked for, where the configuration asks for a calibrated one.
  bool calibrates = true;
};

// Seconds of whole steps in f32, at level O1, and under the plan: lower quartiles, as prices are, of rounds
// in which each took its turn; and the plan's ratio to the others of its round.
struct Steps {
  struct Ratio {
    double low = 0.0, median = 0.0, high = 0.0;  // quartiles; above 1: the plan is faster
  };
  struct Seconds {
    double f32 = 0.0, rules = 0.0, plan = 0.0;
  };
  Seconds whole;
  std::vector<Seconds> phases{};
  Ratio against_f32, against_rules;
  Ratio rules_against_f32{};  // level O1's to f32
  int rounds = 0;

  // Whether the plan is the slower one in three rounds of four.
  bool slower_than_rules() const { return against_rules.high < 1.0; }
};

// What was decided for a phase of the step.
struct PlannedPhase {
  amp::plan::PrecisionPlan plan;
  Measured measured;
  amp::plan::Assignment assignment;
  int casts_of_rules = 0;            // that level O1 puts into a forward
  std::optional<Accuracy> accuracy;  // of the search
};

struct Planned {
  std::vector<PlannedPhase> phases;
  std::optional<amp::Calibration> calibration;
  std::optional<Steps> steps;
  // How fast the cut was beside level O1, where it was slower and level O1's types were kept.
  std::optional<Steps::Ratio> cut_against_rules{};

  amp::plan::PhasePlans plans() const;
  // Whether whole steps under it take longer than in f32.
  bool is_slower() const { return steps && steps->against_f32.median < 1.0; }
};

// Level O1 of the configuration's 16-bit type, which plans and advice start from. Throws UserError for lists,
// layers, 16-bit batch norm and other levels.
amp::Precision precision_of(const config::Loaded& loaded);

// Each phase of a step is traced, measured and solved by itself; whole steps are of all of them. Throws
// UserError for a precision that has no 16-bit type, as train::planned_phases, as the policies, and as
// train::calibrate.
Planned make_plan(const config::Loaded& loaded, const Request& request);

// Where whole steps under a cut were slower than at level O1, gives it level O1's types and bits: its casts
// are shared no longer. Ops that the user pinned say what is wanted, and a search what is accurate: such
// plans stay. make_plan does so.
void keep_faster(Planned& planned, const Request& request);

// What precision.plan: auto means: the cut, or level O1's types where it is slower, as a file. Says in one
// line what it decided.
std::string plan_at_start(const config::Loaded& loaded);

}  // namespace tandem::planning
