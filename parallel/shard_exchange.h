// Reduction of a step's shards (optim/step/shards.h) over ranks.
//
// Fast mode: a rank adds its own shards in order, and the communicator adds those of the ranks in its own
// order; a rank with a single shard reduces gradients in buckets during backward, optionally in 16 bits.
// Reproducible mode: all shards are added in a fixed tree over their number (parallel/shard_tree.h), so the
// bits do not depend on the assignment of shards to ranks. In both modes all ranks get the same bits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optim/step/shards.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// A flag that ranks exchange with the weights of their shards.
struct SharedFlag {
  bool own = false;
  bool any = false;  // whether some rank's flag was set in the last step; the same on all
};

// All-gathers rows of `counts` values, of which `own` are this rank's, and the flags.
std::vector<double> gather_rows(Communicator& ranks, std::span<const double> own,
                                std::vector<std::size_t> counts, SharedFlag* flag, double deadline_s);

struct ShardExchangeOptions {
  int shards = 1;  // at least the number of ranks; rank r owns part_of_rank(shards, ranks, r)
  double usual_samples = 1.0;
  bool reproducible = false;
  double deadline_s = 60.0;
  // Fast mode: bucket size in bytes; 0: a single reduction.
  std::size_t bucket_bytes = 0;
  // Type of transmitted gradients: f32, f16 or bf16. Values are rounded before sending and at every addition,
  // which is in f32. f16 buckets are divided by the next power of two from the number of ranks, so that sums
  // of values in range do not overflow.
  DType wire = DType::f32;
  SharedFlag* flag = nullptr;  // kept by reference; absent: no flag
};

// Error of a sum by 16-bit transmission.
struct WireError {
  double difference = 0.0, norm = 0.0;  // norms of the difference to the f32 sum, and of that sum
};

// Keeps a reference to `ranks`. Throws UserError for fewer shards than ranks; its functions throw as a
// communicator does. `error`: if given, the first gradients are also sent in f32, and their difference is
// stored there.
std::unique_ptr<optim::ShardExchange> make_shard_exchange(Communicator& ranks,
                                                          const ShardExchangeOptions& options,
                                                          std::optional<WireError>* error = nullptr);

}  // namespace tandem::parallel
