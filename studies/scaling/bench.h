// Benchmark of the training step by ranks, and of the same work without communication.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "config/load.h"
#include "parallel/communicator.h"

namespace tandem::scaling {

struct BenchOptions {
  std::int64_t steps = 30, warmup = 5;
};

// Blocks of three kinds of steps in turns: all ranks together; all ranks at once without communication; the
// first rank alone. The batch is synthetic and divided as in training. On every rank:
//
//   "config", "precision", "device", "ranks", "shards", "threads" of a rank, "batch_size" of a step
//   "step_ms"             {"together", "apart", "one"}: medians, of the slowest rank
//   "items_per_s"         together
//   "exposed"             share of communication in a step: 1 − apart/together
//   "efficiency"          relative to one rank with its shards only: one/together
//   "gradient_bytes"      reduced in a step, as sent
//   "link"                {"latency_us", "gb_per_s"} of a ring, fitted to all-reduces of several sizes
//   "predicted"           for 8, 64 and 512 GPUs: "gpus", "all_reduce_ms", and "least_step_ms" for 90 %
//                         efficiency without overlap
//
// Throws UserError for unsuitable configurations, and exceptions of the communicator.
nlohmann::ordered_json bench_ranks(const config::Loaded& loaded, parallel::Communicator& ranks,
                                   const BenchOptions& options);

}  // namespace tandem::scaling
