// Resumption: the run to resume, and the keys of its configuration that may have changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "runs/run_directory.h"

namespace tandem::train {

// The run to resume; absent for a new run. It is `config` or `resume` if one names a run directory. With
// `resume` "auto" it is the newest unfinished run of the same configuration, overrides included, so that one
// command line both starts and resumes a run. Throws UserError if there is nothing to resume, if the run has
// completed (unless `overrides` give it more epochs), and if a configuration is missing or given in addition
// to a directory. `ignored_runs` gets a line for each damaged run that "auto" ignores.
std::optional<runs::RunDirectory> run_to_resume(const std::string& config,
                                                const std::vector<std::string>& overrides,
                                                const std::string& resume,
                                                std::vector<std::string>& ignored_runs);

// Changes between the resolved configurations of a checkpoint and of its resumption.
struct ConfigChanges {
  std::vector<std::string> notes;  // one line for each key that may change: "epochs: 10 → 20"
  bool precision = false;          // a key of `precision` has changed
};

// Throws UserError with the keys that must not change during a run: those of model, data, optimizer and all
// others that affect the results.
ConfigChanges changes_since(const config::Json& saved, const config::Json& now);

// Note for a run that was computed at another CPU level than this process uses, since its kernels round sums
// differently; "" if the level is the same or unknown. Throws UserError if a `deterministic` run would change
// its level.
std::string note_on_level(const runs::RunDirectory& run, bool deterministic);
// Note for a run that was computed by another number of ranks, if that is known; else "".
std::string note_on_ranks(const runs::RunDirectory& run, int ranks);

}  // namespace tandem::train
