// The state of a run, damaged behind its digest: it is refused, or the run goes on with it.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/small_run.h"
#include "tests/fuzz/target.h"
#include "train/checkpoints.h"

namespace tandem::fuzz {

namespace {

namespace fs = std::filesystem;

train::RunDirectory directory() {
  fs::create_directories(folder() + "/run/checkpoints");
  std::ofstream(folder() + "/run/config.json") << "{}";
  return train::RunDirectory::open(folder() + "/run");
}

void run(Bytes input) {
  static const train::RunDirectory run_directory = directory();
  const std::string state = run_directory.checkpoint("state");
  std::error_code error;
  fs::remove(state, error);
  fs::create_symlink(file_of(input), state);
  train::Checkpoints checkpoints(run_directory, 1, {});
  SmallRun run;
  const train::RunState loaded = checkpoints.load_state(*run.step);
  expect(loaded.epoch >= 1 && loaded.position >= 0, "a place in the run that cannot be");
  while (!run.step->ready()) run.backward();
  run.step->apply();
  run.step->synchronize();
}

}  // namespace

TANDEM_FUZZ_TARGET("checkpoint", run)

}  // namespace tandem::fuzz
