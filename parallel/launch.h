// Launch of this process, and the resulting communicator.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "parallel/communicator.h"

namespace tandem::parallel {

// Environment variables set by Open MPI's mpirun.
struct Launch {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this host
  std::string session_folder;          // of this mpirun on this host, which removes it; may be empty
};

// Absent without mpirun. Throws UserError for values that mpirun would not set.
std::optional<Launch> launch_from_environment();

// "" if unknown.
std::string host_name();

struct CommunicatorOptions {
  // Deadline for ranks that do not start, or do not end.
  double deadline_s = 60;
  // Ranks of a host share their status in memory. Without, they exchange messages, as ranks of several hosts
  // do.
  bool shared_memory = true;
  // Ranks of one host with shared memory reduce gradients there (parallel/host/host_sums.h) instead of by
  // messages.
  bool host_sums = true;
  // Larger messages are split into pieces of this size.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

// OneProcess without mpirun or with a single rank; otherwise Open MPI, whose library is opened only then:
// libmpi.so.40, or the file in the environment variable TANDEM_MPI_LIBRARY. Call once per process. Throws
// VendorError with the reason when mpirun started several ranks and MPI is unusable. If ranks do not start,
// or do not meet after MPI's start, within the deadline, the process ends with exit code 1 and a line on
// stderr that names them, because MPI does not return from waiting for them.
//
// The environment variable TANDEM_ALL_REDUCE=mpi means host_sums = false.
//
// The destructor synchronises all ranks and closes MPI. If that is impossible (during an exception, after a
// failed rank, with pending work), MPI stays open, and mpirun ends all ranks when this process ends.
std::unique_ptr<Communicator> open_communicator(const CommunicatorOptions& options = {});

}  // namespace tandem::parallel
