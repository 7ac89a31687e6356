// What adding up gradients over ranks takes, as a function of a few numbers (the usual model of latency and
// bandwidth; Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
// 2005).
#pragma once

#include <span>

namespace tandem::scaling {

// Between two neighbours: seconds before anything arrives, and bytes a second from then on.
struct Link {
  double latency_s = 0.0;
  double bytes_per_s = 0.0;
};

// An all-reduce of so many bytes over a ring of ranks: 2(p−1)·α + 2(p−1)/p·S/B. 0 for a rank that is alone.
double ring_seconds(int ranks, double bytes, const Link& link);

// An all-reduce as it was measured.
struct Sample {
  double bytes = 0.0, seconds = 0.0;
};
// The link with which ring_seconds comes closest to them, relatively: least squares of the quotients, neither
// number below 0. At least two sizes. Throws UserError for fewer than two ranks or sizes.
Link fitted(int ranks, std::span<const Sample> samples);

// GPUs in nodes: gradients are added within a node, parts of them between nodes, and handed out within.
struct Cluster {
  int gpus_a_node = 8;
  Link within, between;  // of a GPU to its neighbour in the node; of a GPU to its like in another node
  double start_s = 0.0;  // of any collective
};

// H100s: NVLink's effective ring of 8 and a network card of 400 Gb/s for each, as published and estimated
// (NVIDIA/nccl-tests, MLPerf 4.0).
Cluster h100_cluster();

// An all-reduce of so many bytes; `gpus` fill whole nodes where there are more than one.
double all_reduce_seconds(const Cluster& cluster, int gpus, double bytes);

// The share of time that is not lost where nothing overlaps: step / (step + communication).
double efficiency(double step_s, double communication_s);
// From which step on that share is reached.
double least_step_seconds(double communication_s, double share);

}  // namespace tandem::scaling
