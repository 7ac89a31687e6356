// The planner's own policy: the assignment of least cost, found exactly as a minimum cut.
#pragma once

#include <vector>

#include "amp/plan/constraints.h"
#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// The cheapest assignment that is allowed; of several the one with the fewest decisions for 16 bits, which
// every other contains: equal times give f32. More gain on one op takes no other out of 16 bits, and pinning
// one to f32 brings none in. Throws UserError when ops that are tied are pinned to different types.
Assignment cut(const Graph& graph, const Freedom& freedom = {});

// The same with `lambda` ns for each unit of a penalty.
Assignment cut(const Graph& graph, const Freedom& freedom, const Penalty& penalty, double lambda);

// A trade of time for a penalty: memory, or the square of an error.
struct Trade {
  Assignment assignment;
  std::int64_t ns = 0;
  double penalty = 0.0;
};

// The corners of the lower hull of (penalty, time), the fastest first: the best for each price of the
// penalty, exactly. What lies above the hull is not found. At most `most` corners, the first of those that
// halving meets.
std::vector<Trade> frontier(const Graph& graph, const Freedom& freedom, const Penalty& penalty,
                            int most = 64);

// Why each op has its types in an assignment, which is a cut's under this freedom, or by_lists: then what no
// pin and no price decides was decided by rule.
std::vector<Why> reasons(const Graph& graph, const Assignment& assignment, const Freedom& freedom,
                         bool by_lists = false);

}  // namespace tandem::amp::plan
