#include "tests/program/ranks.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

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

bool cannot_be_started() {
  const std::string why = why_no_ranks();
  if (why.empty()) return false;
  if (std::getenv("TANDEM_REQUIRE_RANKS")) FAIL("no ranks: " << why);
  WARN("skipped: " << why);
  return true;
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

std::vector<std::string> own_lines(const Outcome& outcome) {
  std::vector<std::string> lines;
  std::istringstream text(outcome.err);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("tandem: ") || line.starts_with("rank ")) lines.push_back(line);
  return lines;
}

void write_text(const TemporaryDirectory& directory) {
  std::ofstream file(directory / "text.txt");
  const char* const who[] = {"a cat", "the dog", "one bird", "my fish"};
  const char* const does[] = {"eats", "sees", "likes", "finds", "hears"};
  for (int i = 0; i < 240; ++i)
    file << who[i % 4] << ' ' << does[i * i % 5] << ' ' << who[(i / 3 + 1) % 4] << '\n';
}

std::vector<std::string> language() {
  return {"train",
          "debian_lstm",
          R"(data={"name": "text", "train": "text.txt", "validation": "text.txt", "test": "text.txt",
                   "batch_size": 6, "steps": 9, "random_steps": true})",
          R"(model={"name": "language_model", "embedding": 8, "units": 8, "num_layers": 2, "dropout": 0.2})",
          "precision=fp32",
          "optimizer.lr=1",
          "epochs=2"};
}

}  // namespace tandem::testing
