// Assignments that ask for no price: what autocast does, and everything in 16 bits.
#pragma once

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// All f32.
Assignment full_precision(const Graph& graph);

// What level O1 does (amp/autocast.h): products in 16 bits, `fp32` in f32, all others as the data that they
// read. Ops that are not capable are cast all the same, and so is what is fetched; pins hold. Throws
// UserError, as O1 does, for a banned op.
Assignment rules(const Graph& graph);

// 16 bits wherever something may be: what is left to gain when nothing speaks against it. As O2, but nothing
// besides operands of products is cast.
Assignment low_precision(const Graph& graph);

// Pins of the user, in every policy.
struct Must {
  std::string match;  // an ECMAScript regular expression, searched in a key and in its path
  bool low = false;   // 16 bits; false: f32
};

// Whether it matches an op of the graph. Throws UserError for an expression that is none.
bool matches(const Graph& graph, const Must& must);

// The graph with every match pinned; of two that match an op, the later counts. To f32: operands and result.
// To 16 bits: of ops that are `lower`, `widest` or `neutral`, so that a whole block can be named; a softmax
// in it stays what its rule says. Views follow what they are views of. Throws UserError for an expression
// that is none or pins nothing.
Graph pinned(Graph graph, const std::vector<Must>& musts);

// The graph with these ops pinned to f32 for that reason.
Graph without(Graph graph, const std::vector<int>& ops, Why why = Why::accuracy);

// What is left of an assignment when only `low`, ascending, may be in 16 bits.
Assignment restricted(const Graph& graph, const Assignment& assignment, const std::vector<int>& low);

// The ops with anything in 16 bits, ascending; without views.
std::vector<int> lowered(const Graph& graph, const Assignment& assignment);

}  // namespace tandem::amp::plan
