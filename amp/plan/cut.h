// Policy "cut": the assignment of least cost, found exactly as a minimum cut.
#pragma once

#include <vector>

#include "amp/plan/constraints.h"
#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// The cheapest allowed assignment; on ties the one with the fewest 16-bit decisions, which all others
// contain: equal times give f32. Monotone: more gain on one op moves no other op out of 16 bits, and pinning
// one to f32 moves none in. Throws UserError when tied ops are pinned to different types.
Assignment cut(const Graph& graph, const Freedom& freedom = {});

// The reason for each op's types in an assignment, from a cut under this freedom or from by_lists; there, ops
// without pin and price are decided by rule.
std::vector<Why> reasons(const Graph& graph, const Assignment& assignment, const Freedom& freedom,
                         bool by_lists = false);

}  // namespace tandem::amp::plan
