// Deadline of ranks before they have read their configuration.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

// parallel.deadline_s of a configuration or run directory, if this rank can read it; else, and without
// mpirun, the default. Errors of the configuration are reported after the ranks have connected.
double deadline_at_start(const std::string& config, const std::vector<std::string>& overrides);

}  // namespace tandem::cli
