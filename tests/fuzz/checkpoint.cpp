// A damaged run state with a valid digest: it is refused, or the run resumes from it.
#include "runs/checkpoints.h"
#include "tests/fuzz/small_run.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  const safetensors::File file(file_of(input));
  runs::state_summary(file);
  SmallRun run;
  const runs::SavedState saved = runs::read_state(file);
  run.step->load_state(saved.tensors);
  expect(saved.run.epoch >= 1 && saved.run.position >= 0, "a place in the run that cannot be");
  while (!run.step->ready()) run.backward();
  run.step->apply();
  run.step->synchronize();
}

}  // namespace

TANDEM_FUZZ_TARGET("checkpoint", run)

}  // namespace tandem::fuzz
