// Growth, the policy of Alibaba PAI (tensorflow/tensorflow#25381): 16 bits spread from the products
// downstream, through ops that are on a white list, and nowhere else.
#pragma once

#include <vector>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// Batch norm, sums, maxima, ReLU and the like (`folds`), and views. A sum grows from any of its operands,
// everything else from its first. Gradients have forward's types, and what unscales them lies in the update:
// growth needs no stop.
bool grows(const Op& op);

// The least set with every product that may be in 16 bits, what is pinned to them, and what grows from these.
std::vector<bool> pai_policy(const Graph& graph);

// With prices, as PAI's cost step has it: in the order of forward an op is kept when its time in 16 bits and
// its new casts are less than its f32 time, all earlier decisions being as they are.
std::vector<bool> priced_growth(const Graph& graph);

}  // namespace tandem::amp::plan
