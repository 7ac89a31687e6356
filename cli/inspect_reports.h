// The reports of `tandem inspect` that have a file of their own.
#pragma once

#include <string>

#include "cli/commands.h"
#include "config/load.h"

namespace tandem::cli {

// Of a run with the plan that it follows.
config::Loaded inspected_config(const InspectArguments& arguments);
// The weights of a run, "" for a configuration.
std::string inspected_weights(const InspectArguments& arguments);

int inspect_headroom(const InspectArguments& arguments);
int inspect_blame(const InspectArguments& arguments);

}  // namespace tandem::cli
