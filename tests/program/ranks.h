// Runs the program as ranks started by mpirun.
#pragma once

#include <string>
#include <vector>

#include "tests/program/support.h"

namespace tandem::testing {

// Why none can be started here, for a test to say; "" when they can.
std::string why_no_ranks();

// `program ARGUMENTS` by so many ranks of this machine, whatever its cores; 0: by itself, without mpirun.
Launch by_ranks(const TemporaryDirectory& directory, int ranks, const std::vector<std::string>& arguments,
                const char* program = tandem::test::program_path());

inline Outcome run_ranks(const TemporaryDirectory& directory, int ranks,
                         const std::vector<std::string>& arguments) {
  return launch(by_ranks(directory, ranks, arguments));
}

}  // namespace tandem::testing
