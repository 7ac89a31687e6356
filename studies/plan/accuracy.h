// Error of a step's gradient under given dtypes, and the search for the ops that cause it.
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
  double noise = 0.0;         // error in f32 if weights move by one unit in the last place
  double error = 0.0;         // of the result, on the first batch
  double error_before = 0.0;  // with all candidates in 16 bits
  int runs = 0;
  amp::plan::Search search;
};

// 16 units in the last place of the dtype.
double usual_limit(DType low);

// Finds ops to keep in f32 so that the step's error is within `limit`. The error is the greater of ‖g −
// g32‖/‖g32‖ over all gradients and |L − L32|/|L32|, of one phase, against the same step in f32 with the same
// weights, batch and random numbers. The search uses one batch of the training data and verifies the result
// on it and two others. Throws UserError if the limit is below the error of moving all weights by one unit in
// the last place.
Accuracy search_types(const config::Loaded& loaded, const amp::plan::Graph& graph,
                      const amp::plan::Assignment& assignment, const amp::Precision& precision, double limit,
                      std::size_t phase = 0);

}  // namespace tandem::planning
