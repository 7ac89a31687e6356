// Trains the arms of a plan, each run as a process of its own, and gathers what they gave.
//
// A run directory keeps the verdict on its run in result.json, so a comparison goes on where it was stopped:
// a run whose configuration is the wanted one is not run again when it has ended, and resumed when it has
// not. A directory that holds a run of another configuration is moved aside, never overwritten.
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

// A stop was asked for; what was done is kept.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

struct SeedResult {
  std::int64_t seed = 0;
  bool diverged = false;
  std::string failure;          // what the run said when it stopped early
  std::optional<double> value;  // the metric of the final step, evaluated with FP32 masters; absent: diverged
  std::optional<double> own;    // the same evaluated in the arm's own precision
  std::int64_t steps = 0, applied = 0, skipped = 0;
  double train_s = 0.0;  // wall time of all sessions of the run
  std::size_t peak_memory_bytes = 0;
};

struct RunnerOptions {
  std::function<void(const std::string&)> say;  // one line for people
};

// One result for each seed of `plan` for each of its arms. Seed by seed, so that an early look compares whole
// pairs. Throws Interrupted; UserError when a run was refused; Error when one failed for another reason than
// divergence.
std::vector<std::vector<SeedResult>> run_arms(const Experiment& plan, const train::StopRequest& stop,
                                              const RunnerOptions& options);

}  // namespace tandem::compare
