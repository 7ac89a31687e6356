// Times of the ops of a planned step, forward plus backward, on the device's clock.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "amp/autocast.h"
#include "autograd/observers.h"
#include "studies/plan/subject.h"

namespace tandem::planning {

struct StepTimes {
  std::vector<double> ops;         // seconds of each op with planned dtypes, in order
  std::vector<std::int64_t> flop;  // of forward
  double whole = 0.0;              // of the step
};

// Times one phase of a step. An op's time excludes the casts inserted before it. Ops have the numbers of
// PlannedTypes.
StepTimes time_step(Subject& subject, const amp::ResolvedPrecision& resolved, std::size_t phase = 0);

}  // namespace tandem::planning
