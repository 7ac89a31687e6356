// Reports of `tandem inspect` with a separate file.
#pragma once

#include "cli/commands.h"
#include "config/load.h"
#include "runs/weights.h"

namespace tandem::cli {

// The configuration, with the run's precision plan if the subject is a run.
config::Loaded inspected_config(const InspectArguments& arguments);
// The weights of --weights; default: the last of a run, or the initial weights of a configuration.
runs::Weights inspected_weights(const InspectArguments& arguments);

int inspect_headroom(const InspectArguments& arguments);
int inspect_blame(const InspectArguments& arguments);

}  // namespace tandem::cli
