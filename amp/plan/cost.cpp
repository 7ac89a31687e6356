#include "amp/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

constexpr double kNsPerSecond = 1e9;
double moving_ns(const Rates& rates, double bytes) {
  require(rates.bytes_per_second > 0.0, "plan", "bytes_per_second must be positive, is {}",
          rates.bytes_per_second);
  return bytes / rates.bytes_per_second * kNsPerSecond;
}

}  // namespace

std::int64_t working_copy_ns(const Rates& rates, std::int64_t elements) {
  return std::llround(moving_ns(rates, 2.0 * static_cast<double>(elements)));
}

Graph without_noise(Graph graph, const DeadBand& band) {
  for (Op& op : graph.ops) {
    if (!is_product(op)) continue;
    const double width = std::max(static_cast<double>(band.ns), band.share * static_cast<double>(op.ns.f32));
    if (static_cast<double>(std::abs(op.ns.f32 - op.ns.low)) < width) op.ns.low = op.ns.f32;
  }
  return graph;
}

}  // namespace tandem::amp::plan
