// Cost of working copies, and noise of measured costs.
#pragma once

#include <cstdint>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// Rates of a machine, measured or given.
struct Rates {
  double bytes_per_second = 0.0;  // read plus written
  std::int64_t launch_ns = 0;     // α: of an empty kernel in a queue
};

// A 16-bit working copy of a parameter, written by the update from the master in registers.
std::int64_t working_copy_ns(const Rates& rates, std::int64_t elements);

// Dead band: differences between an op's two times that are within measurement noise count as zero, so that
// decisions repeat after a new measurement.
struct DeadBand {
  std::int64_t ns = 200;
  double share = 0.02;  // of the f32 time
};

// Sets the 16-bit time of a product to its f32 time if they differ by less than the larger of the two bounds.
Graph without_noise(Graph graph, const DeadBand& band = {});

}  // namespace tandem::amp::plan
