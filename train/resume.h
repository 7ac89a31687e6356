// Which run is gone on with, and what of its configuration may have changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "runs/run_directory.h"

namespace tandem::train {

// The run to go on with; absent: a new one. That is `config` when it names a run directory, or `resume`, a
// run directory too, or "auto": the newest run of the same configuration, overrides included, that has not
// completed; a new run when there is none. So one command line both starts a run and goes on with it. Throws
// UserError when there is nothing to resume, the run has completed (unless `overrides` give it more epochs),
// or a configuration is missing or given besides a directory. `passed_over` gets a line for each run that
// "auto" found and cannot judge, because what it holds is damaged.
std::optional<runs::RunDirectory> run_to_resume(const std::string& config,
                                                const std::vector<std::string>& overrides,
                                                const std::string& resume,
                                                std::vector<std::string>& passed_over);

// What became of a configuration between a checkpoint and its resumption, both resolved.
struct ConfigChanges {
  std::vector<std::string> notes;  // a line for each key that may change: "epochs: 10 → 20"
  bool precision = false;          // some key of `precision` is among them
};

// Throws UserError listing the keys that a run cannot change half way: those of the model, the data, the
// optimizer and everything else that is not harmless.
ConfigChanges changes_since(const config::Json& saved, const config::Json& now);

// What to say where the run was computed at another level of the CPU than this process computes at, whose
// kernels round sums otherwise; "" where it is the same one or unknown. Throws UserError where a
// `deterministic` run would change its level.
std::string note_on_level(const runs::RunDirectory& run, bool deterministic);
// And where so many ranks go on with what another number of them computed, as far as that is known.
std::string note_on_ranks(const runs::RunDirectory& run, int ranks);

}  // namespace tandem::train
