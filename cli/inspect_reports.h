// The reports of `tandem inspect` that have a file of their own.
#pragma once

#include <string>

#include "cli/commands.h"

namespace tandem::cli {

// The weights of a run, "" for a configuration.
std::string inspected_weights(const InspectArguments& arguments);

int inspect_headroom(const InspectArguments& arguments);
int inspect_blame(const InspectArguments& arguments);

}  // namespace tandem::cli
