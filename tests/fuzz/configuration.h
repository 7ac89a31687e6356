// Helpers of the configuration targets.
#pragma once

#include "config/load.h"

namespace tandem::fuzz {

// Everything a run makes of a configuration before its first step, on made-up facts of the data.
void build(const config::Loaded& loaded);

// Written out and loaded again, it is the same configuration.
void check_round_trip(const config::Loaded& loaded);

}  // namespace tandem::fuzz
