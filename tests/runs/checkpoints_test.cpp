#include "runs/checkpoints.h"

#include "nn/layers/linear.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/support/limited_threads.h"
#include "tests/support/temporary_files.h"

using namespace tandem;

TEST_CASE("a checkpoint is written where there is no room for a thread to do it", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const auto run = runs::RunDirectory::create((directory.path() / "run").string(), "run", "{}");
  nn::Linear model(3, 2);
  optim::Sgd sgd(model.parameters(), {.lr = 0.1});
  optim::Step step(model, {&sgd});
  runs::Checkpoints checkpoints(run, 2, {}, config::Json::object());
  const test::LimitedThreads limited(0);
  checkpoints.take_weights(model, 1, 0);
  checkpoints.save(0, step.state(), {}, true);
  CHECK(checkpoints.ended());
  const auto saved = checkpoints.finish();
  REQUIRE(saved);
  CHECK(saved->step == 0);
  std::vector<std::string> notes;
  CHECK(checkpoints.newest_whole(notes) == "step-0");
  CHECK(testing::read_text(run.checkpoints() / "best") == "step-0\n");
}
