// Questions to CUDA itself, whatever Tandem does: what a capture makes of pageable memory, and what nodes of
// graphs, their order and barriers of a grid cost.
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
