// Batch norm over the shards of all ranks (autograd/ops/norm_peers.h).
//
// A rank makes the calls of its layers, which are the same on every rank that has samples of a micro-batch,
// in the same order, among those of gradients that are added up meanwhile. A rank without samples makes none
// by itself: then the first rank that has some tells how much is added up next, and gradients wait until
// backward has ended (`uneven`), so that all ranks make the same calls all the same.
#pragma once

#include "autograd/ops/norm_peers.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

class RankPeers final : public BatchNormPeers {
 public:
  // `ranks` is kept by reference. Functions throw what a communicator throws.
  RankPeers(Communicator& ranks, double deadline_s) : ranks_(ranks), deadline_s_(deadline_s) {}

  // Of each micro-batch, by every rank: `begin`; its forward and backward, or `follow` where this rank has no
  // samples; `end`.
  void begin(bool has_samples);
  void follow();
  void end();
  // Whether some rank has no samples of the micro-batch that has begun, and some have.
  bool uneven() const { return teller_ >= 0; }

  void sum(std::span<double> values) override;

 private:
  // How many values come next, of who tells it; 0: no more.
  std::int64_t told(std::int64_t length);

  Communicator& ranks_;
  const double deadline_s_;
  int teller_ = -1;  // the first rank with samples, where there are ranks without; else -1
};

}  // namespace tandem::parallel
