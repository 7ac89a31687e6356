// Cost of an all-reduce as a function of latency and bandwidth (the usual model; Thakur, Rabenseifner and
// Gropp, "Optimization of Collective Communication Operations in MPICH", 2005).
#pragma once

#include <span>

namespace tandem::scaling {

// Link between neighbours: latency in seconds, and bandwidth in bytes per second.
struct Link {
  double latency_s = 0.0;
  double bytes_per_s = 0.0;
};

// Seconds of a ring all-reduce: 2(p−1)·α + 2(p−1)/p·S/B. 0 for a single rank.
double ring_seconds(int ranks, double bytes, const Link& link);

// A measured all-reduce.
struct Sample {
  double bytes = 0.0, seconds = 0.0;
};
// The link for which ring_seconds fits the samples best: least squares of the relative errors, with both
// numbers at least 0. Throws UserError for fewer than two ranks or sizes.
Link fitted(int ranks, std::span<const Sample> samples);

// GPUs in nodes: gradients are reduced within a node, parts of them between nodes, and gathered within a
// node.
struct Cluster {
  int gpus_a_node = 8;
  Link within, between;  // of a GPU: to its neighbour in the node; to its counterpart in another node
  double start_s = 0.0;  // of any collective
};

// H100s: the effective NVLink ring of 8, and a network card of 400 Gb/s for each, from published and
// estimated values (NVIDIA/nccl-tests, MLPerf 4.0).
Cluster h100_cluster();

// Seconds of an all-reduce; more than one node must be full.
double all_reduce_seconds(const Cluster& cluster, int gpus, double bytes);

// The shortest step with an efficiency of `share` without overlap: step / (step + communication).
double least_step_seconds(double communication_s, double share);

}  // namespace tandem::scaling
