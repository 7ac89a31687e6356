#include "studies/scaling/model.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::scaling {

namespace {

// ring_seconds is hops·α + load/B.
double hops(int ranks) { return 2.0 * (ranks - 1); }
double load(int ranks, double bytes) { return 2.0 * (ranks - 1) / ranks * bytes; }

}  // namespace

double ring_seconds(int ranks, double bytes, const Link& link) {
  if (ranks == 1) return 0.0;
  return hops(ranks) * link.latency_s + load(ranks, bytes) / link.bytes_per_s;
}

// With x = hops/t and y = load/t, the sum of (α·x + y/B − 1)² is minimal where both derivatives are zero.
Link fitted(int ranks, std::span<const Sample> samples) {
  require(ranks > 1, "scaling", "an all-reduce needs at least two ranks to measure a link, there is {}",
          ranks);
  const auto [least, most] = std::ranges::minmax_element(samples, {}, &Sample::bytes);
  require(samples.size() > 1 && least->bytes < most->bytes, "scaling",
          "a link needs measurements of at least two sizes, {} measurements have one", samples.size());
  double xx = 0.0, xy = 0.0, yy = 0.0, x1 = 0.0, y1 = 0.0;
  for (const Sample& sample : samples) {
    const double x = hops(ranks) / sample.seconds, y = load(ranks, sample.bytes) / sample.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  double latency = (x1 * yy - y1 * xy) / determinant, seconds_a_byte = (y1 * xx - x1 * xy) / determinant;
  if (latency < 0.0) latency = 0.0, seconds_a_byte = y1 / yy;
  if (seconds_a_byte < 0.0) seconds_a_byte = 0.0, latency = x1 / xx;
  return {latency, 1.0 / seconds_a_byte};
}

Cluster h100_cluster() {
  return {.gpus_a_node = 8,
          .within = {.latency_s = 0.0, .bytes_per_s = 370e9},  // start_s includes the latency of its hops
          .between = {.latency_s = 2.5e-6, .bytes_per_s = 42e9},
          .start_s = 20e-6};
}

double all_reduce_seconds(const Cluster& cluster, int gpus, double bytes) {
  if (gpus <= 1) return 0.0;
  const int within = std::min(gpus, cluster.gpus_a_node), nodes = (gpus + within - 1) / within;
  return cluster.start_s + ring_seconds(within, bytes, cluster.within) +
         ring_seconds(nodes, bytes / within, cluster.between);
}

double least_step_seconds(double communication_s, double share) {
  return communication_s * share / (1.0 - share);
}

}  // namespace tandem::scaling
