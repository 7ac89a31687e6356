#include "amp/plan/prediction.h"

namespace tandem::amp::plan {

Prediction predict(const Graph& graph, const Assignment& assignment, bool share) {
  check(graph, assignment);
  const ReaderTable readers = readers_of(graph);
  Prediction prediction;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    prediction.ops_ns += assignment[i].operands ? op.ns.low : op.ns.f32;
    if (assignment[i].operands && !assignment[i].out) prediction.ops_ns += op.widening_ns;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const Result& result = op.results[r];
      if (!assignment[i].out) prediction.storage_ns += result.storage_ns;
      int consumers = 0;  // readers of the other type
      for (const int product : readers[i][r].products)
        consumers += assignment[static_cast<std::size_t>(product)].operands != assignment[i].out;
      const int casts = share || op.kind == Kind::parameter ? consumers > 0 : consumers;
      for (int c = 0; c < casts; ++c) {
        prediction.casts.push_back({.op = static_cast<int>(i),
                                    .result = static_cast<int>(r),
                                    .low = !assignment[i].out,
                                    .consumers = casts == 1 ? consumers : 1,
                                    .ns = result.cast_ns});
        prediction.cast_ns += result.cast_ns;
      }
    }
  }
  return prediction;
}

}  // namespace tandem::amp::plan
