// Batch norm synchronised over several shards of a batch, as PyTorch's SyncBatchNorm.
//
// Within a BatchNormPeersScope, batch_norm_train computes its statistics over the shards of all peers, and
// its backward (in or outside the scope) the sums over them. Means and variances are over all values, for
// uneven shards too; the running variance is unbiased by the total count; the gradients of gamma and beta are
// the shard's own, reduced later like those of every parameter.
//
// Forward communicates twice, for the mean and then for the squared deviations, so that a large mean costs no
// bits; backward once. Sums are f64. Every peer with values makes the same calls in the order of its layers.
#pragma once

#include <span>

#include "autograd/ops/norm_ops.h"
#include "core/scoped_value.h"

namespace tandem {

class BatchNormPeers {
 public:
  virtual ~BatchNormPeers() = default;
  // All-reduce (sum) in place; all peers get the same bits.
  virtual void sum(std::span<double> values) = 0;
};

// Stand-in for peers, to evaluate one shard of a synchronised batch alone: as if one other peer had the same
// values. The statistics are the shard's own, one value per channel is allowed, and nothing is communicated.
class NoBatchNormPeers final : public BatchNormPeers {
 public:
  void sum(std::span<double> values) override {
    for (double& value : values) value *= 2.0;
  }
};

// Sets the peers of this thread. Scopes nest; nullptr: each shard alone.
class BatchNormPeersScope : ScopedValue<BatchNormPeers*> {
 public:
  // Kept by reference, by the tape too.
  explicit BatchNormPeersScope(BatchNormPeers* peers);
  static BatchNormPeers* current();
};

namespace ops {

// Moments over all peers, f64 [C] each.
struct SharedMoments {
  Tensor mean, var;    // the biased variance
  double count = 0.0;  // values a channel
};

// Moments of x [.., C] and the peers' shards; `sums`: those of x from conv2d, or absent. CPU only. Throws
// UserError for a single value per channel in total.
SharedMoments shared_moments(BatchNormPeers& peers, const Tensor& x, const Tensor& sums);

// The part of BatchNormBackward's dx that depends on the statistics: added to `frozen_dx` and rounded to
// `dx`, which may be the same tensor. dgamma and dbeta, f64 [C], are the shard's own. With an absent `dx` the
// peer still takes part.
void add_shared_gradient(BatchNormPeers& peers, const BatchNormTensors::Saved& saved, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& frozen_dx, const Tensor& dx);

}  // namespace ops

}  // namespace tandem
