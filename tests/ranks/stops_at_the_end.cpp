// Open MPI's library (TANDEM_MPI_LIBRARY) with an MPI_Finalize in which the rank that STOPPED_RANK names
// stops.
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int MPI_Finalize() {
  const char* const stopped = std::getenv("STOPPED_RANK");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (stopped && rank && std::strcmp(stopped, rank) == 0) std::raise(SIGSTOP);
  return PMPI_Finalize();
}
