// Runner of an experiment: trains the arms, each run in a separate process, and collects the results.
//
// A run directory stores its result in result.json, so that a comparison can be resumed: a finished run with
// the same configuration is not repeated, an unfinished one is resumed. A directory with a run of another
// configuration is renamed, never overwritten.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "studies/compare/experiment.h"
#include "train/signals.h"

namespace tandem::compare {

// A stop was requested; finished work is kept.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

struct SeedResult {
  std::int64_t seed = 0;
  bool diverged = false;
  std::string failure;          // message of a run that stopped early
  std::optional<double> value;  // metric of the final step, evaluated with FP32 masters; absent if diverged
  std::optional<double> own;    // the same in the arm's own precision
  std::int64_t steps = 0, applied = 0, skipped = 0;
  double train_s = 0.0;  // wall time of all sessions of the run
  std::size_t peak_memory_bytes = 0;
};

// One result for each arm and seed; `say` prints a line. Runs seed by seed, so that early results have whole
// pairs. Throws Interrupted; UserError if a run was refused; Error if one failed for another reason than
// divergence.
std::vector<std::vector<SeedResult>> run_arms(const Experiment& experiment, const train::StopRequest& stop,
                                              const std::function<void(const std::string&)>& say);

}  // namespace tandem::compare
