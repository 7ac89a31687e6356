// Noise of measured costs.
#pragma once

#include <cstdint>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// Dead band: differences between an op's two times that are within measurement noise count as zero, so that
// decisions repeat after a new measurement.
struct DeadBand {
  std::int64_t ns = 200;
  double share = 0.02;  // of the f32 time
};

// Sets the 16-bit time of a product to its f32 time if they differ by less than the larger of the two bounds.
Graph without_noise(Graph graph, const DeadBand& band = {});

}  // namespace tandem::amp::plan
