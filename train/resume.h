// Which run `--resume` means.
#pragma once

#include <optional>
#include <string>

#include "train/run_directory.h"

namespace tandem::train {

// The run to go on with; absent: a new one. `resume` is empty (a new run), a run directory, or "auto": the
// newest run that `config` would have made, has not completed and saved its state; a new run when there is
// none. Throws UserError when there is nothing to resume, the run has completed, or `config` is missing or
// given besides a directory.
std::optional<RunDirectory> run_to_resume(const std::string& config, const std::string& resume);

}  // namespace tandem::train
