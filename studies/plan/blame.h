// Which op of a step is to blame for what 16 bits do to its gradient.
#pragma once

#include <string>
#include <vector>

#include "amp/plan/graph.h"
#include "amp/precision.h"
#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "runs/weights.h"

namespace tandem::planning {

// What most of an op's own error consists of, in its result and in the gradients that it hands back.
enum class Cause : std::uint8_t {
  none,      // its values are those of f32
  range,     // values that are infinite, or came to be none, in 16 bits
  flush,     // values that are zero in 16 bits
  rounding,  // all others
};
const char* name_of(Cause cause);

struct BlamedOp {
  amp::plan::OpKey key;
  // ‖y16 - y32‖/‖y32‖ of its result, of the same f32 inputs, where y32 is finite; infinite where something
  // finite came to be none, NaN where nothing of y32 is finite.
  double local = 0.0;
  double share = 0.0;  // of the step's squared error: (E² - E₋²)/E², E₋ with this op alone in f32
  Cause cause = Cause::none;
};

struct Blame {
  std::vector<BlamedOp> ops;  // what the precision lowers, the greatest share first
  double error = 0.0;         // E, the root of the mean square over the batches
  double noise = 0.0;         // that weights moved by one unit in the last place make
  double scale = 1.0;         // the loss scale of the steps
  int batches = 0, runs = 0;
};

// Blame under the configuration's precision, level O1 or a plan, on weights as Workbench has them: a step for
// each op that is lowered and batch, and one more for each op. The error is that of search_types. Throws
// UserError for a precision that lowers nothing or is of another level, and as train::planned_phases,
// SegmentedLossScale and BorderScope. Of one phase of a step. `segments` of the loss scale, of which `scale`
// is that of the first.
Blame blame(const config::Loaded& loaded, const runs::Weights& weights, int batches, double scale,
            std::size_t phase = 0, const std::vector<amp::SegmentedLossScale::Segment>& segments = {});

}  // namespace tandem::planning
