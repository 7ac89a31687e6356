#include "runs/checkpoints.h"

#include <nlohmann/json.hpp>

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

TEST_CASE("a run's progress is rewritten beside unchanged tensors", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const auto run = runs::RunDirectory::create((directory.path() / "run").string(), "run", "{}");
  nn::Linear model(3, 2);
  optim::Sgd sgd(model.parameters(), {.lr = 0.1});
  optim::Step step(model, {&sgd});
  runs::Checkpoints checkpoints(run, 2, {}, {{"seed", 1}});
  const auto save = [&](std::int64_t at, const runs::RunState& state, bool best) {
    checkpoints.take_weights(model, 1, at);
    checkpoints.save(at, step.state(), state, best);
    checkpoints.finish();
  };
  save(3, {.epoch = 1, .position = 12}, true);
  save(6, {.epoch = 1, .position = 24, .best_checkpoint = "step-3"}, false);
  save(9, {.epoch = 1, .position = 36, .best_checkpoint = "step-3"}, false);
  const auto state_file = run.checkpoints() / "step-9" / "state.safetensors";
  const std::string tensors = testing::read_text(state_file);
  CHECK(runs::newest_state(run)->position == 36);
  checkpoints.save_state(9, {.epoch = 2, .best = 0.5, .best_epoch = 1}, true);
  CHECK(checkpoints.finish()->step == 9);
  const runs::RunState now = runs::newest_state(run).value();
  CHECK(now.epoch == 2);
  CHECK(now.position == 0);
  CHECK(now.best == 0.5);
  CHECK(now.best_checkpoint == "step-9");
  CHECK(testing::read_text(run.checkpoints() / "best") == "step-9\n");
  CHECK(testing::read_text(state_file) == tensors);
  CHECK(checkpoints.config_of("step-9") == config::Json{{"seed", 1}});
  CHECK_THAT(runs::state_summary(safetensors::File(state_file.string())), Catch::Contains("in epoch 2"));
  // What is best no longer goes, as after any save.
  CHECK_FALSE(std::filesystem::exists(run.checkpoints() / "step-3"));
  std::vector<std::string> notes;
  CHECK(checkpoints.newest_whole(notes) == "step-9");
  CHECK(notes.empty());
}

TEST_CASE("a checkpoint of an older version says where the run stands in its state", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const auto run = runs::RunDirectory::create((directory.path() / "run").string(), "run", "{}");
  nn::Linear model(3, 2);
  optim::Sgd sgd(model.parameters(), {.lr = 0.1});
  optim::Step step(model, {&sgd});
  const runs::RunState state{.epoch = 2, .position = 7, .best = 0.5, .best_epoch = 1};
  safetensors::Image weights, old;
  weights.take("weights", {});
  old.take("state", step.state(),
           {{"tandem.state", runs::to_json(state).dump()}, {"tandem.config", R"({"seed": 1})"}});
  runs::CheckpointStore(run.checkpoints())
      .write("step-3", {{"weights.safetensors", weights.bytes()}, {"state.safetensors", old.bytes()}});
  CHECK(runs::newest_state(run)->position == 7);
  runs::Checkpoints checkpoints(run, 2, {}, {{"seed", 2}});
  CHECK(checkpoints.load("step-3").run.best_epoch == 1);
  CHECK(checkpoints.config_of("step-3") == config::Json{{"seed", 1}});
  // What is beside it is newer.
  checkpoints.save_state(3, {.epoch = 3}, false);
  checkpoints.finish();
  CHECK(checkpoints.load("step-3").run.epoch == 3);
  CHECK(checkpoints.config_of("step-3") == config::Json{{"seed", 2}});
}
