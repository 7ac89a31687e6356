// The training step by ranks, beside the same work without the others: what communication costs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "config/load.h"
#include "parallel/communicator.h"

namespace tandem::scaling {

struct BenchOptions {
  std::int64_t steps = 30, warmup = 5;
};

// Steps in blocks of three kinds, in turns: of all ranks together; of all of them at the same time, each by
// itself; of the first rank alone. The batch is made up, and divided as in training. On every rank:
//
//   "config", "precision", "device", "ranks", "shards", "threads" of a rank, "batch_size" of a step
//   "step_ms"             {"together", "apart", "one"}: medians, of the slowest rank
//   "items_per_s"         together
//   "exposed"             share of a step that is communication: 1 − apart/together
//   "efficiency"          against one rank with the same batch of its own: one/together
//   "gradient_bytes"      that are added up in a step, as they are sent
//   "link"                {"latency_us", "gb_per_s"} fitted to all-reduces of several sizes, as a ring
//   "predicted"           for 8, 64 and 512 GPUs: "gpus", "all_reduce_ms", "least_step_ms" from which on 90 %
//   of
//                         the time is not lost without any overlap
//
// Throws UserError for what does not fit, and what a communicator throws.
nlohmann::ordered_json bench_ranks(const config::Loaded& loaded, parallel::Communicator& ranks,
                                   const BenchOptions& options);

}  // namespace tandem::scaling
