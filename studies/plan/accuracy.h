// What types do to the gradient of a step, and the search for the ops that spoil it.
#pragma once

#include <cstdint>
#include <vector>

#include "amp/plan/graph.h"
#include "amp/plan/search.h"
#include "amp/precision.h"
#include "config/load.h"

namespace tandem::planning {

struct Accuracy {
  double limit = 0.0;
  double noise = 0.0;         // the error that weights moved by one unit in the last place make, in f32
  double error = 0.0;         // of what was found, on the first batch
  double error_before = 0.0;  // of everything that was to be lowered
  int runs = 0;
  amp::plan::Search search;
};

// 16 units in the last place of the type.
double usual_limit(DType low);

// Takes out of 16 bits what keeps the step's error from being within `limit`: the greater of ‖g − g32‖/‖g32‖
// over all gradients and |L − L32|/|L32|, of one phase, against the same step in f32: same weights, batch and
// random numbers. Found on one batch of the training data, verified on it and two others. Throws UserError
// for a limit below the error that moving all weights by one unit in the last place makes.
Accuracy search_types(const config::Loaded& loaded, const amp::plan::Graph& graph,
                      const amp::plan::Assignment& assignment, const amp::Precision& precision, double limit,
                      std::size_t phase = 0);

}  // namespace tandem::planning
