// The ranks of one run of mpirun, joined by Open MPI (parallel/launch.h says what is opened, and how it
// ends).
#pragma once

#include <memory>
#include <string>

#include "parallel/launch.h"

namespace tandem::parallel {

// Also of a single rank.
std::unique_ptr<Communicator> open_mpi(const Launch& launch, const CommunicatorOptions& options);

// Why this build or this machine cannot, one line; empty when it can. Opens the library, starts nothing.
std::string why_no_mpi();

}  // namespace tandem::parallel
