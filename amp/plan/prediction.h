// Predicted cost of an assignment: the objective of the planner, term by term.
//
//   Σ_p t_p(operands) + Σ_T s_T·[T is f32] + Σ_T κ_T·[T is cast down] + Σ_T κ_T·[T is cast up]
//
// t_p is the time of a product, s_T the extra storage time of T in f32, κ_T a cast. A tensor is cast when
// some product wants it in the other type. Times add up: no overlap, no caches, no change of algorithm.
#pragma once

#include <cstdint>
#include <vector>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// A cast of the step.
struct PlannedCast {
  int op = -1, result = 0;  // source
  bool low = false;         // to 16 bits; else to f32
  int consumers = 0;        // reads by products
  std::int64_t ns = 0;

  bool operator==(const PlannedCast&) const = default;
};

struct Prediction {
  std::int64_t ops_ns = 0, storage_ns = 0, cast_ns = 0;
  std::vector<PlannedCast> casts;  // in the order of their sources

  std::int64_t total() const { return ops_ns + storage_ns + cast_ns; }
};

// A parameter is cast once in any case; other tensors once for all readers, or once per reader without
// sharing. Throws InternalError as check(graph, assignment).
Prediction predict(const Graph& graph, const Assignment& assignment, bool share = true);

}  // namespace tandem::amp::plan
