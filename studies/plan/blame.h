// Blame: the share of each op in the error that 16 bits cause in a step's gradient.
#pragma once

#include <string>
#include <vector>

#include "amp/plan/graph.h"
#include "amp/precision.h"
#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "runs/weights.h"

namespace tandem::planning {

// Main cause of an op's own error, in its result and in its input gradients.
enum class Cause : std::uint8_t {
  none,      // equal to f32
  range,     // values that became non-finite in 16 bits
  flush,     // values that became zero in 16 bits
  rounding,  // other differences
};
const char* name_of(Cause cause);

struct BlamedOp {
  amp::plan::OpKey key;
  // ‖y16 - y32‖/‖y32‖ of its result for the same f32 inputs, over the finite values of y32. Infinite if a
  // finite value became non-finite, NaN if no value of y32 is finite.
  double local = 0.0;
  double share = 0.0;  // of the step's squared error: (E² - E₋²)/E², with E₋ if only this op is in f32
  Cause cause = Cause::none;
};

struct Blame {
  std::vector<BlamedOp> ops;  // lowered ops, in descending order of their shares
  double error = 0.0;         // E, the root mean square over the batches
  double noise = 0.0;         // error if weights move by one unit in the last place
  double scale = 1.0;         // loss scale of the steps
  int batches = 0, runs = 0;
};

// Blame for one phase under the configuration's precision, level O1 or a plan, with the weights of Workbench.
// Runs a step for each pair of lowered op and batch, and one more for each op. The error is that of
// search_types. `scale` is the loss scale, of the first of `segments` if there are several. Throws UserError
// for a precision that lowers nothing or has another level, and as train::planned_phases, SegmentedLossScale
// and BorderScope.
Blame blame(const config::Loaded& loaded, const runs::Weights& weights, int batches, double scale,
            std::size_t phase = 0, const std::vector<amp::SegmentedLossScale::Segment>& segments = {});

}  // namespace tandem::planning
