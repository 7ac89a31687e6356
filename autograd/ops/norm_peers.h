// Batch norm over several shards of a batch at once.
//
// Who normalises the other shards is known to whoever trains: within a BatchNormPeersScope, batch_norm_train
// takes its statistics over the shards of all peers, and its backward, wherever that runs, the sums over
// them. Semantics are those of PyTorch's SyncBatchNorm: means and variances of all values, however unevenly
// shards have them; the running variance is unbiased by the count of all; the gradients of gamma and beta are
// the shard's own, to be added up with those of every other parameter.
//
// Forward goes over the peers twice, for the mean and then for the squares of what differs from it, so that
// no bit is lost to a mean that is large; backward once. Sums are f64. Every peer with values makes the same
// calls in the same order, those of its layers.
#pragma once

#include <span>

#include "autograd/ops/norm_ops.h"

namespace tandem {

class BatchNormPeers {
 public:
  virtual ~BatchNormPeers() = default;
  // In place, to the sum over all peers, which get the same bits; a call of all of them.
  virtual void sum(std::span<double> values) = 0;
};

// Instead of peers, for looking at a shard by itself where its batch is normalised with others: as if one
// other peer had the same values. The statistics are the shard's own, one value a channel is no error, and
// nobody is waited for.
class NoBatchNormPeers final : public BatchNormPeers {
 public:
  void sum(std::span<double> values) override {
    for (double& value : values) value *= 2.0;
  }
};

// For its life, on this thread. Scopes nest; nullptr: each shard by itself.
class BatchNormPeersScope {
 public:
  // Kept by reference, by the tape too.
  explicit BatchNormPeersScope(BatchNormPeers* peers);
  ~BatchNormPeersScope();
  BatchNormPeersScope(const BatchNormPeersScope&) = delete;
  BatchNormPeersScope& operator=(const BatchNormPeersScope&) = delete;
  static BatchNormPeers* current();

 private:
  BatchNormPeers* outer_;
};

namespace ops {

// What there is of statistics over all peers, f64 [C] each.
struct SharedMoments {
  Tensor mean, var;    // the biased variance
  double count = 0.0;  // values a channel
};

// Of x [.., C] and those of the peers; `sums` of x as conv2d gave them, or absent. CPU only. Throws UserError
// where all of them have one value a channel.
SharedMoments shared_moments(BatchNormPeers& peers, const Tensor& x, const Tensor& sums);

// What BatchNormBackward leaves out where the statistics are frozen: their part of dx, added to `frozen_dx`
// and rounded to `dx`, which may be the same tensor. dgamma and dbeta, f64 [C], are the shard's own. `dx` may
// be absent: a peer takes part all the same.
void add_shared_gradient(BatchNormPeers& peers, const BatchNormTensors::Saved& saved, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& frozen_dx, const Tensor& dx);

}  // namespace ops

}  // namespace tandem
