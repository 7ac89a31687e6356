// RankPeers: batch norm over the shards of all ranks (autograd/ops/norm_peers.h).
//
// A rank makes the calls of its layers, which are the same in order on every rank with samples of a
// micro-batch, interleaved with all-reduces of gradients. A rank without samples has no such calls: then the
// first rank with samples announces the size of each next sum, and gradients wait until the end of backward
// (`uneven`), so that all ranks make the same calls.
#pragma once

#include "autograd/ops/norm_peers.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

class RankPeers final : public BatchNormPeers {
 public:
  // Keeps a reference to `ranks`. Functions throw as a communicator does.
  RankPeers(Communicator& ranks, double deadline_s) : ranks_(ranks), deadline_s_(deadline_s) {}

  // For each micro-batch on every rank: `begin`; its forward and backward, or `follow` on a rank without
  // samples; `end`.
  void begin(bool has_samples);
  void follow();
  void end();
  // Whether only some ranks have samples of the current micro-batch.
  bool uneven() const { return teller_ >= 0; }

  void sum(std::span<double> values) override;

 private:
  // The number of next values, announced by `teller_`; 0: no more.
  std::int64_t told(std::int64_t length);

  Communicator& ranks_;
  const double deadline_s_;
  int teller_ = -1;  // first rank with samples if some rank has none; else -1
};

}  // namespace tandem::parallel
