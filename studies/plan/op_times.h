// The time of each op of a planned step, forward and backward together, on the device's clock.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "amp/autocast.h"
#include "autograd/observers.h"
#include "studies/plan/subject.h"

namespace tandem::planning {

struct StepTimes {
  std::vector<double> ops;         // seconds of each op that a plan gives types to, in order
  std::vector<std::int64_t> flop;  // of forward
  double casts = 0.0;              // of those that precision put in
  int cast_count = 0;              // in forward
  double whole = 0.0;              // of the step

  // What is neither ops nor casts: gradients that are added up, the update, the host.
  double rest() const;
};

// One step of a phase of the subject under `plan`, without the other phases. An op's time is without the
// casts that were put before it. Ops are numbered as PlannedTypes numbers its entries.
StepTimes time_step(Subject& subject, const amp::ResolvedPrecision& plan, std::size_t phase = 0);

}  // namespace tandem::planning
