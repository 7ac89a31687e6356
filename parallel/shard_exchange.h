// How ranks add up the shards of a step (optim/step/shards.h).
//
// Fast: a rank adds its own shards in their order, and the communicator adds those of the ranks in an order
// of its own. Reproducible: all shards are added in the fixed tree over their number (parallel/shard_tree.h),
// so that the sums have the same bits whoever computed which shards. All ranks get the same bits in both.
#pragma once

#include <memory>

#include "optim/step/shards.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

struct ShardExchangeOptions {
  int shards = 1;  // at least as many as ranks; rank r owns part_of_rank(shards, ranks, r)
  double usual_samples = 1.0;
  bool reproducible = false;
  double deadline_s = 60.0;
};

// `ranks` is kept by reference. Throws UserError for fewer shards than ranks; its functions throw what a
// communicator throws.
std::unique_ptr<optim::ShardExchange> make_shard_exchange(Communicator& ranks,
                                                          const ShardExchangeOptions& options);

}  // namespace tandem::parallel
