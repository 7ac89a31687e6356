// How ranks add up the shards of a step (optim/step/shards.h).
//
// Fast: a rank adds its own shards in their order, and the communicator adds those of the ranks in an order
// of its own; a rank with a single shard adds its gradients up in ranges, while backward makes others, in 16
// bits where that is asked for. Reproducible: all shards are added in the fixed tree over their number
// (parallel/shard_tree.h), so that the sums have the same bits whoever computed which shards. All ranks get
// the same bits in both.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optim/step/shards.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// A flag that every rank shows the others beside what its shards tell of a step.
struct SharedFlag {
  bool own = false;
  bool any = false;  // some rank's was set in the last step; the same on all
};

// The rows of all ranks, `counts` values of each, of which `own` are this one's; and their flags.
std::vector<double> gather_rows(Communicator& ranks, std::span<const double> own,
                                std::vector<std::size_t> counts, SharedFlag* flag, double deadline_s);

struct ShardExchangeOptions {
  int shards = 1;  // at least as many as ranks; rank r owns part_of_rank(shards, ranks, r)
  double usual_samples = 1.0;
  bool reproducible = false;
  double deadline_s = 60.0;
  // Of the fast mode: bytes of a range of gradients; 0: all at once.
  std::size_t bucket_bytes = 0;
  // What gradients are sent as: f32, f16 or bf16. Each is rounded once, and again at every addition, in f32.
  // Ranges of f16 are divided by the power of two from the number of ranks on, so that no sum is too large
  // whose parts are not.
  DType wire = DType::f32;
  SharedFlag* flag = nullptr;  // kept; absent: none is shown
};

// What 16 bits on the wire made of a sum.
struct WireError {
  double difference = 0.0, norm = 0.0;  // of the sum to that in f32; of that
};

// `ranks` is kept by reference. Throws UserError for fewer shards than ranks; its functions throw what a
// communicator throws.
// `error`: where given, the first gradients are sent in f32, too, and what is found is put there.
std::unique_ptr<optim::ShardExchange> make_shard_exchange(Communicator& ranks,
                                                          const ShardExchangeOptions& options,
                                                          std::optional<WireError>* error = nullptr);

}  // namespace tandem::parallel
