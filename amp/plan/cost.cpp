#include "amp/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kOverheadRatio = 4.0;

double moving_ns(const Rates& rates, double bytes) {
  require(rates.bytes_per_second > 0.0, "plan", "bytes_per_second must be positive, is {}",
          rates.bytes_per_second);
  return bytes / rates.bytes_per_second * kNsPerSecond;
}

double rounded_up(std::int64_t extent, std::int64_t granule) {
  return static_cast<double>((extent + granule - 1) / granule * granule);
}

bool empty(const ProductShape& shape) { return shape.m <= 0 || shape.n <= 0 || shape.k <= 0; }

}  // namespace

std::int64_t storage_ns(const Rates& rates, std::int64_t elements, int reads, bool written, bool gradient) {
  const double accesses = (written ? 1 : 0) + reads;
  return std::llround(moving_ns(rates, 2.0 * static_cast<double>(elements) * accesses * (gradient ? 2 : 1)));
}

std::int64_t cast_ns(const Rates& rates, std::int64_t elements, bool gradient) {
  const double once =
      static_cast<double>(rates.launch_ns) + moving_ns(rates, 6.0 * static_cast<double>(elements));
  return std::llround(once * (gradient ? 2 : 1));
}

std::int64_t working_copy_ns(const Rates& rates, std::int64_t elements) {
  return std::llround(moving_ns(rates, 2.0 * static_cast<double>(elements)));
}

Graph priced(Graph graph, const Rates& rates) {
  const ReaderTable readers = readers_of(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      Result& result = op.results[r];
      if (op.kind == Kind::parameter) {
        result.storage_ns = 0;  // the master is f32 anyway
        result.cast_ns = working_copy_ns(rates, result.elements);
      } else {
        // Inputs of the step already exist.
        const bool written = op.kind == Kind::op && !op.view;
        result.storage_ns =
            storage_ns(rates, result.elements, readers[i][r].others, written, result.gradient);
        result.cast_ns = cast_ns(rates, result.elements, result.gradient);
      }
    }
  }
  return graph;
}

Graph without_noise(Graph graph, const DeadBand& band) {
  for (Op& op : graph.ops) {
    if (!is_product(op)) continue;
    const double width = std::max(static_cast<double>(band.ns), band.share * static_cast<double>(op.ns.f32));
    if (static_cast<double>(std::abs(op.ns.f32 - op.ns.low)) < width) op.ns.low = op.ns.f32;
  }
  return graph;
}

double padding_share(const ProductShape& shape, const ProductShape& granule) {
  if (empty(shape)) return 1.0;
  return static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) /
         (rounded_up(shape.m, granule.m) * rounded_up(shape.n, granule.n) * rounded_up(shape.k, granule.k));
}

double wave_share(const ProductShape& shape, const Tiles& tiles) {
  if (empty(shape)) return 1.0;
  const std::int64_t count =
      ((shape.m + tiles.tile_m - 1) / tiles.tile_m) * ((shape.n + tiles.tile_n - 1) / tiles.tile_n);
  return static_cast<double>(count) / rounded_up(count, tiles.units);
}

Estimate roofline(const Rates& rates, double flop, double flops, double useful_share, double bytes) {
  const double compute = flop > 0.0 ? flop / (flops * useful_share) * kNsPerSecond : 0.0;
  const double memory = moving_ns(rates, bytes);
  const double launch = static_cast<double>(rates.launch_ns);
  Bound bound = compute >= memory ? Bound::compute : Bound::memory;
  if (launch > std::max(compute, memory)) bound = Bound::overhead;
  return {std::max(compute, memory) + launch, bound};
}

Bound bound_of(const Estimate& estimate, double measured_ns) {
  return measured_ns > kOverheadRatio * estimate.ns ? Bound::overhead : estimate.bound;
}

double step_speedup(double compute_share, double memory_share, double compute) {
  const double rest = 1.0 - compute_share - memory_share;
  return 1.0 / (compute_share / compute + memory_share / 2.0 + rest);
}

}  // namespace tandem::amp::plan
