// Measurements of CUDA without Tandem: captures of pageable memory, and the cost of graph nodes, their order
// and grid barriers.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::probe {

struct Finding {
  std::vector<std::pair<std::string, double>> figures;  // "node_us"
  std::string outcome;                                  // of what has no figure, in words
};

struct CudaProbe {
  std::string name;  // begins with "cuda "
  Finding (*ask)(bool tiny);
};

const std::vector<CudaProbe>& cuda_probes();

}  // namespace tandem::probe
