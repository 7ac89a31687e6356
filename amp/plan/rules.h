// Assignments without prices: autocast's, and everything in 16 bits.
#pragma once

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// All f32.
Assignment full_precision(const Graph& graph);

// Level O1 (amp/autocast.h): products in 16 bits, `fp32` in f32, others in the type of their data inputs. Ops
// without a useful 16-bit kernel and fetched results are cast all the same; pins hold. Throws UserError, as
// O1 does, for a banned op.
Assignment rules(const Graph& graph);

// 16 bits wherever permitted: an upper bound on the gain. As O2, but only operands of products are cast.
Assignment low_precision(const Graph& graph);

// Pins of the user, for every policy.
struct Must {
  std::string match;  // an ECMAScript regular expression, searched in a key and in its path
  bool low = false;   // 16 bits; false: f32
};

// Whether it matches an op of the graph. Throws UserError for an invalid expression.
bool matches(const Graph& graph, const Must& must);

// Pins every match; the last match wins. To f32: operands and result. To 16 bits: ops that are `lower`,
// `widest` or `neutral`, so that a whole block can be named; a softmax in it keeps its rule. Views follow
// their base. Throws UserError for an expression that is invalid or pins nothing.
Graph pinned(Graph graph, const std::vector<Must>& musts);

// Pins these ops to f32 for that reason.
Graph without(Graph graph, const std::vector<int>& ops, Why why = Why::accuracy);

// The assignment with only the ops in `low`, ascending, in 16 bits.
Assignment restricted(const Graph& graph, const Assignment& assignment, const std::vector<int>& low);

// The ops with 16-bit operands or results, ascending; without views.
std::vector<int> lowered(const Graph& graph, const Assignment& assignment);

}  // namespace tandem::amp::plan
