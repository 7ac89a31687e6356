// Runs the program as ranks started by mpirun.
#pragma once

#include <string>
#include <vector>

#include "tests/program/support.h"

namespace tandem::testing {

// Why none can be started here, for a test to say; "" when they can.
std::string why_no_ranks();

// Where none can be started, the tests that need them say so and pass.
bool cannot_be_started();

// `program ARGUMENTS` by so many ranks of this machine, whatever its cores; 0: by itself, without mpirun.
Launch by_ranks(const TemporaryDirectory& directory, int ranks, const std::vector<std::string>& arguments,
                const char* program = tandem::test::program_path());

inline Outcome run_ranks(const TemporaryDirectory& directory, int ranks,
                         const std::vector<std::string>& arguments) {
  return launch(by_ranks(directory, ranks, arguments));
}

// The lines of Tandem's own; mpirun adds some where a process has ended with an exit code.
std::vector<std::string> own_lines(const Outcome& outcome);

// Files of a text, so that a language model has something to read.
void write_text(const TemporaryDirectory& directory);

inline const std::vector<std::string> kDigits{"train", "digits_mlp", "epochs=2", "data.train_size=200"};
std::vector<std::string> language();

inline std::vector<std::string> in(const std::string& run, std::vector<std::string> arguments) {
  return joined(std::move(arguments), {"run_dir=" + run, "threads=1", "-q"});
}

}  // namespace tandem::testing
