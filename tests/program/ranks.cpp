#include "tests/program/ranks.h"

#include <unistd.h>

#include "parallel/mpi/open.h"

namespace tandem::testing {

std::string why_no_ranks() {
#ifdef TANDEM_SANITIZED
  return "MPI's own allocations outlive the program, which a sanitizer says";
#endif
  const TemporaryDirectory directory;
  const Outcome version = launch({.arguments = {"mpirun", "--version"},
                                  .directory = directory.path().string(),
                                  .program = "/usr/bin/env"});
  if (version.exit_code != 0) return "there is no mpirun (Debian: openmpi-bin)";
  return parallel::why_no_mpi();
}

Launch by_ranks(const TemporaryDirectory& directory, int ranks, const std::vector<std::string>& arguments,
                const char* program) {
  if (ranks == 0) return {.arguments = arguments, .directory = directory.path().string(), .program = program};
  std::vector<std::string> words{"mpirun", "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");  // who tests in containers
  words = joined(words, {"-n", std::to_string(ranks), program});
  return {.arguments = joined(words, arguments),
          .directory = directory.path().string(),
          .program = "/usr/bin/env"};
}

}  // namespace tandem::testing
