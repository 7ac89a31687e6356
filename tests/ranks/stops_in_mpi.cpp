// Open MPI's library (TANDEM_MPI_LIBRARY), in which rank STOPPED_RANK stops at the end of MPI_Init_thread or
// in MPI_Finalize, as STOPPED_IN names.
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

bool is(const char* variable, const char* value) {
  const char* const text = std::getenv(variable);
  return text && value && std::strcmp(text, value) == 0;
}

void stop_in(const char* function) {
  if (is("STOPPED_IN", function) && is("STOPPED_RANK", std::getenv("OMPI_COMM_WORLD_RANK")))
    std::raise(SIGSTOP);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int MPI_Init_thread(int* count, char*** words, int wanted,
                                                                      int* given) {
  const int code = PMPI_Init_thread(count, words, wanted, given);
  stop_in("MPI_Init_thread");
  return code;
}

extern "C" __attribute__((visibility("default"))) int MPI_Finalize() {
  stop_in("MPI_Finalize");
  return PMPI_Finalize();
}
