// Runs with overwritten memory.
#include "core/guard.h"

#include <cstring>

#include "autograd/node.h"
#include "autograd/observers.h"
#include "config/load.h"
#include "runs/checkpoint_store.h"
#include "tests/support/errors.h"
#include "tests/support/guards.h"
#include "tests/support/temporary_files.h"
#include "train/trainer.h"

using namespace tandem;
using testing::TemporaryDirectory;

namespace {

void write_behind_a_workspace() {
  auto* block = static_cast<char*>(host_allocator().allocate(64, MemoryKind::workspace));
  block[64 + 9] = 0;
  host_allocator().deallocate(block);
}

// Overwrites memory in the n-th backward pass, as a kernel would that writes beyond its workspace.
class Vandal final : public OpObserver {
 public:
  explicit Vandal(int pass) : pass_(pass), observed_(*this) {}
  void before_backward(const Node& node, std::span<const Tensor>) override {
    if (std::strstr(node.info().name, "cross_entropy") && ++passes_ == pass_) write_behind_a_workspace();
  }

 private:
  int pass_, passes_ = 0;
  ObserverScope observed_;
};

}  // namespace

TEST_CASE("a run whose memory was overwritten ends, and its checkpoints are from before", "[guard]") {
  for (const bool on : {false, true}) {
    const test::Guards guards(on);
    const TemporaryDirectory directory;
    const config::Loaded loaded =
        config::load("digits_mlp", {"run_dir=" + (directory.path() / "run").string(), "epochs=3",
                                    "data.batch_size=400", "threads=1", "checkpoint.every_steps=3"});
    const auto run = runs::RunDirectory::create(loaded.config.run_dir, "run",
                                                config::resolved(loaded.config).dump(2) + "\n");
    {
      const Vandal vandal(6);
      train::Trainer trainer(loaded, {.quiet = true});
      std::string found;
      try {
        trainer.run(&run, "", train::StopRequest());
      } catch (const InternalError& error) {
        found = error.what();
      }
      CHECK_THAT(found, Catch::Contains("10 bytes behind a block of 64 bytes (workspace) were overwritten"));
      // At the next op, which has a name, or when a checkpoint is to take its place, at the end of the epoch
      // at the latest.
      CHECK((found.starts_with("[memory]") || found.starts_with("[checkpoint]")) != on);
    }
    guard::forget();
    const std::string latest = testing::read_text(run.checkpoints() / "latest");
    CHECK((latest == "step-3\n" || latest == "step-4\n"));  // step 4 may have been about to take its place
    CHECK_FALSE(std::filesystem::exists(run.checkpoints() / "step-6"));
    CHECK_THAT(testing::read_text(run.log()), Catch::Contains("were overwritten"));
    train::Trainer again(loaded, {.quiet = true, .resume = true});
    CHECK(again.run(&run, "", train::StopRequest()).status == train::TrainStatus::completed);
  }
}

TEST_CASE("a checkpoint of overwritten memory does not take its place", "[guard]") {
  const test::Guards guards(false);
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  const std::vector<runs::CheckpointStore::File> files{{"weights.safetensors", "a"},
                                                       {"state.safetensors", "b"}};
  write_behind_a_workspace();
  CHECK_FAILS(InternalError, store.write("step-1", files), "[checkpoint] 10 bytes behind");
  CHECK(std::filesystem::is_empty(directory.path()));
  guard::forget();
  store.write("step-1", files);
  CHECK_FALSE(store.damage("step-1"));
}
