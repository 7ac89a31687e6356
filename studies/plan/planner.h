// `tandem plan`: traces a configuration's step, measures its ops, chooses their dtypes, predicts the time,
// and measures whole steps.
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
  double seconds = 10.0;        // time to measure ops of all phases, and again to measure steps
  std::optional<double> limit;  // for the search: relative error of loss and gradient
  bool measures_steps = true;
  // Calibrates the loss scale if the configuration asks for a calibrated one.
  bool calibrates = true;
};

// Seconds of whole steps in f32, at level O1, and under the plan: lower quartiles over rounds in which each
// runs in turn; and the ratios within rounds.
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
  Ratio rules_against_f32{};  // of level O1 to f32
  int rounds = 0;

  // Whether the plan is slower in three of four rounds.
  bool slower_than_rules() const { return against_rules.high < 1.0; }
};

// Result for one phase of the step.
struct PlannedPhase {
  amp::plan::PrecisionPlan plan;
  Measured measured;
  amp::plan::Assignment assignment;
  int casts_of_rules = 0;            // in a forward at level O1
  std::optional<Accuracy> accuracy;  // of the search
};

struct Planned {
  std::vector<PlannedPhase> phases;
  std::optional<amp::Calibration> calibration;
  std::optional<Steps> steps;
  // Speed of the cut relative to level O1, if it was slower and level O1's dtypes were kept.
  std::optional<Steps::Ratio> cut_against_rules{};

  amp::plan::PhasePlans plans() const;
  // Whether whole steps take longer than in f32.
  bool is_slower() const { return steps && steps->against_f32.median < 1.0; }
};

// Level O1 with the configuration's 16-bit dtype, from which plans and advice start. Throws UserError for
// lists, layers, 16-bit batch norm and other levels.
amp::Precision precision_of(const config::Loaded& loaded);

// Traces, measures and solves each phase of a step separately; whole steps include all. Throws UserError for
// a precision without 16-bit dtype, as train::planned_phases, as the policies, and as train::calibrate.
Planned make_plan(const config::Loaded& loaded, const Request& request);

// Replaces a cut by level O1's dtypes, without shared casts, if its whole steps are slower than level O1.
// Plans of other policies and plans with pinned ops stay. make_plan calls it.
void keep_faster(Planned& planned, const Request& request);

// The plan file for precision.plan: auto: the cut, or level O1's dtypes if the cut is slower. Prints one line
// about the result.
std::string plan_at_start(const config::Loaded& loaded);

}  // namespace tandem::planning
