#include "amp/plan/cost.h"

#include <algorithm>
#include <cmath>

namespace tandem::amp::plan {

Graph without_noise(Graph graph, const DeadBand& band) {
  for (Op& op : graph.ops) {
    if (!is_product(op)) continue;
    const double width = std::max(static_cast<double>(band.ns), band.share * static_cast<double>(op.ns.f32));
    if (static_cast<double>(std::abs(op.ns.f32 - op.ns.low)) < width) op.ns.low = op.ns.f32;
  }
  return graph;
}

}  // namespace tandem::amp::plan
