// The time that ranks wait for each other before they have read their configuration.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

// parallel.deadline_s of a configuration, or of the run directory that `config` is, as far as this rank can
// read it; the usual one otherwise, and without mpirun. What is wrong with it is told once the ranks have
// met.
double deadline_at_start(const std::string& config, const std::vector<std::string>& overrides);

}  // namespace tandem::cli
