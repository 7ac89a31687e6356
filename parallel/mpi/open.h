// Connection of the ranks of one mpirun by Open MPI. See parallel/launch.h.
#pragma once

#include <memory>
#include <string>

#include "parallel/launch.h"

namespace tandem::parallel {

// Also for a single rank.
std::unique_ptr<Communicator> open_mpi(const Launch& launch, const CommunicatorOptions& options);

// The reason why MPI is unavailable, one line; empty if available. Opens the library, starts nothing.
std::string why_no_mpi();

}  // namespace tandem::parallel
