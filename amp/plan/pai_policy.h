// Policy "growth" of Alibaba PAI (tensorflow/tensorflow#25381): 16 bits spread from the products downstream,
// only through ops on an allow list.
#pragma once

#include <vector>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// Batch norm, sums, maxima, ReLU and the like (`folds`), and views. A sum grows from any of its operands,
// other ops from their first. Gradients have the types of forward, and unscaling is part of the update, so
// growth needs no stop there.
bool grows(const Op& op);

// The smallest set with every product that may be 16-bit, all ops pinned to 16 bits, and their growth.
std::vector<bool> pai_policy(const Graph& graph);

// With prices, as PAI's cost step: in the order of forward an op is kept when its 16-bit time plus its new
// casts is less than its f32 time, given all earlier decisions.
std::vector<bool> priced_growth(const Graph& graph);

}  // namespace tandem::amp::plan
