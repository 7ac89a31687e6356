// The reports of `tandem inspect` that have a file of their own.
#pragma once

#include "cli/commands.h"
#include "config/load.h"
#include "runs/weights.h"

namespace tandem::cli {

// Of a run with the plan that it follows.
config::Loaded inspected_config(const InspectArguments& arguments);
// The weights that --weights names; else the last of a run, or those that a configuration starts from.
runs::Weights inspected_weights(const InspectArguments& arguments);

int inspect_headroom(const InspectArguments& arguments);
int inspect_blame(const InspectArguments& arguments);

}  // namespace tandem::cli
