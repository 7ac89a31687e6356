// Which run `--resume` means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run_directory.h"

namespace tandem::train {

// The run to go on with; absent: a new one. `resume` is empty (a new run), a run directory, or "auto": the
// newest run of the same configuration, overrides included, that has saved its state and not completed; a new
// run when there is none. So one command line both starts a run and goes on with it. Throws UserError when
// there is nothing to resume, the run has completed, or a configuration is missing or given besides a
// directory.
std::optional<RunDirectory> run_to_resume(const std::string& config,
                                          const std::vector<std::string>& overrides,
                                          const std::string& resume);

}  // namespace tandem::train
