// How this process was started, and the communicator that follows from it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "parallel/communicator.h"

namespace tandem::parallel {

// What mpirun of Open MPI says in the environment of the processes that it starts.
struct Launch {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among those of this host
  std::string session_folder;          // of this run of mpirun on this host, which removes it; may be empty
};

// Absent without mpirun. Throws UserError for what no mpirun would say.
std::optional<Launch> launch_from_environment();

struct CommunicatorOptions {
  // For what is waited for at the start and at the end: ranks that do not start, or do not end.
  double deadline_s = 60;
  // Whether ranks of a host show each other by shared memory where they are. Without, they ask each other by
  // messages, as ranks of several hosts do.
  bool shared_memory = true;
  // Whether ranks of one host that share memory add up gradients there (parallel/host/host_sums.h), and not
  // by messages.
  bool host_sums = true;
  // Larger messages are sent in pieces of so many bytes.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

// OneProcess without mpirun, or with a single rank; Open MPI's otherwise, whose library is opened only then:
// libmpi.so.40, or the file that the environment variable TANDEM_MPI_LIBRARY names. Once a process. Throws
// VendorError when mpirun started several ranks and MPI cannot be used, with the reason. Ranks that do not
// start, or do not meet once MPI has started, within the deadline end the process with exit code 1 and a line
// on stderr that names them: MPI does not come back from waiting for them.
//
// The environment variable TANDEM_ALL_REDUCE=mpi does as host_sums = false.
//
// When the communicator is destroyed all ranks meet once more and MPI is closed. Where that cannot be (an
// exception is on its way, a rank has failed, work is pending) MPI is left as it is, whereupon mpirun ends
// all ranks as soon as this process ends.
std::unique_ptr<Communicator> open_communicator(const CommunicatorOptions& options = {});

}  // namespace tandem::parallel
