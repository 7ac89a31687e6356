// Memory of batches in a training run.
#include "config/load.h"
#include "runs/run_directory.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"
#include "train/trainer.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Bytes of batches that live at the end of a run whose epochs have so many of them.
std::size_t batch_memory(Index batches) {
  const testing::TemporaryDirectory directory;
  const std::vector<std::string> overrides = {
      "run_dir=" + (directory.path() / "run").string(),
      std::string("device=") + (test_device().type == DeviceType::cuda ? "cuda" : "cpu"),
      "precision=amp_fp16",
      "accumulate=12",
      "cuda_graph=off",
      "epochs=3",
      "eval.every_epochs=3",
      "data.batch_size=16",
      "data.eval_batch_size=16",
      "data.workers=0",
      "data.overfit_batches=" + std::to_string(batches)};
  const config::Loaded loaded = config::load("digits_mlp", overrides);
  const auto run = runs::RunDirectory::create(loaded.config.run_dir, "run",
                                              config::resolved(loaded.config).dump(2) + "\n");
  const auto live = [] {
    return backend_under_test().memory().live_by_kind[static_cast<std::size_t>(MemoryKind::data)];
  };
  train::Trainer trainer(loaded, {.quiet = true});
  const std::size_t before = live();
  REQUIRE(trainer.run(&run, "", train::StopRequest()).status == train::TrainStatus::completed);
  return live() - before;
}

}  // namespace

TEST_CASE("a 16-bit run keeps the batches of one step, not of two", "[device][program]") {
  const Emulator gpu = emulator();
  if (gpu) gpu.set_event_denials(50);  // outcomes are not there before the host waits for them
  const std::size_t one_step = batch_memory(12), two_steps = batch_memory(24);
  if (gpu) gpu.set_event_denials(1);
  CHECK(one_step > 0);
  CHECK(two_steps < one_step + one_step / 3);
}
