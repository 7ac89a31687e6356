// Evaluations that end before their time, that fail, or say nothing of what chooses: the run keeps all that
// it has trained, and what is missing comes when it goes on.
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "config/load.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"
#include "tests/tiny/tasks.h"
#include "train/evaluate.h"
#include "train/trainer.h"

using namespace tandem;
using Catch::Contains;
using testing::TemporaryDirectory;
using train::TrainStatus;

namespace {

constexpr int kBatches = 12;  // of an epoch, and of an evaluation

// Before anybody asks for the families.
[[maybe_unused]] const bool added = (test::add_tiny_families(), true);

// Acts in the n-th batch that is evaluated.
class InEvaluation final : public OpObserver {
 public:
  InEvaluation(int batch, std::function<void()> act)
      : batch_(batch), act_(std::move(act)), observed_(*this) {}
  void before_forward(const OpInfo& info, std::span<const Tensor>) override {
    if (!GradMode::enabled() && std::strcmp(info.name, "mse_loss") == 0 && ++seen_ == batch_) act_();
  }

 private:
  int batch_, seen_ = 0;
  std::function<void()> act_;
  ObserverScope observed_;
};

// Two epochs of twelve steps, with a split that chooses.
class Runs {
 public:
  Runs() {
    std::ofstream(folder_.path() / "config.json") << nlohmann::json{
        {"task", "pair"}, {"data", {{"batch_size", 4}, {"batches", kBatches}, {"validates", true}}},
        {"epochs", 2},    {"optimizer", {{"name", "adam"}, {"lr", 0.01}}},
        {"threads", 1},   {"tensorboard", false}}.dump();
  }

  config::Loaded loaded(const std::string& name, std::vector<std::string> more = {}) const {
    more.push_back("run_dir=" + (folder_.path() / name).string());
    return config::load((folder_.path() / "config.json").string(), more);
  }
  runs::RunDirectory create(const config::Loaded& loaded) const {
    return runs::RunDirectory::create(loaded.config.run_dir, "run",
                                      config::resolved(loaded.config).dump(2) + "\n");
  }
  static train::TrainResult train(const config::Loaded& loaded, const runs::RunDirectory& run, bool resume) {
    train::Trainer trainer(loaded, {.quiet = true, .resume = resume});
    return trainer.run(&run, "", train::StopRequest());
  }

 private:
  TemporaryDirectory folder_;
};

// What evaluations leave in metrics.jsonl: "eval 12 validation", "gradients 12", "picture 12 pictures/…".
std::multiset<std::string> left_in(const runs::RunDirectory& run) {
  std::multiset<std::string> left;
  std::ifstream lines(run.metrics());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    const std::string kind = event["event"];
    if (kind != "eval" && kind != "gradients" && kind != "picture" && kind != "step") continue;
    left.insert(fmt::format("{} {} {}{}", kind, event["step"].get<int>(), event.value("split", ""),
                            event.value("file", event.value("phase", ""))));
    if (kind == "picture") CHECK(std::filesystem::exists(run.path() / event["file"].get<std::string>()));
  }
  return left;
}

}  // namespace

TEST_CASE("a stop in any evaluation ends a run that goes on to the same end", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("whole");
  const runs::RunDirectory whole = runs.create(loaded);
  const train::TrainResult expected = Runs::train(loaded, whole, false);
  REQUIRE(expected.status == TrainStatus::completed);
  REQUIRE(expected.split == "test");
  const auto events = left_in(whole);
  CHECK(events.count("eval 24 test") == 1);
  CHECK(events.count("gradients 12 ") == 1);
  // Of one epoch, and two files.
  CHECK(events.count(fmt::format("picture {} pictures/pixel-validation-{:04}.png",
                                 kBatches * expected.best_epoch, expected.best_epoch)) == 1);
  CHECK(events.count(fmt::format("picture 24 pictures/pixel-test-{:04}.png", expected.best_epoch)) == 1);

  // In and at the end of: the first validation, the second one, the test.
  for (const int batch : {5, 12, 18, 24, 25, 36}) {
    CAPTURE(batch);
    const config::Loaded again = runs.loaded(fmt::format("stop{}", batch));
    const runs::RunDirectory run = runs.create(again);
    {
      const InEvaluation stop(batch, [] { std::raise(SIGTERM); });
      const train::TrainResult first = Runs::train(again, run, false);
      // A pass that has ended is not thrown away.
      CHECK(first.status == (batch == 3 * kBatches ? TrainStatus::completed : TrainStatus::interrupted));
    }
    const train::TrainResult rest = Runs::train(again, run, true);
    CHECK(rest.status == TrainStatus::completed);
    CHECK(rest.split == "test");
    CHECK(rest.metrics == expected.metrics);
    CHECK(left_in(run) == events);
  }
}

TEST_CASE("an evaluation that fails costs no step", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("whole");
  const runs::RunDirectory whole = runs.create(loaded);
  const train::TrainResult expected = Runs::train(loaded, whole, false);
  for (const int batch : {5, 18, 30}) {
    CAPTURE(batch);
    const config::Loaded again = runs.loaded(fmt::format("fail{}", batch));
    const runs::RunDirectory run = runs.create(again);
    {
      const InEvaluation fail(batch, [] { throw UserError("", "a picture is cut"); });
      CHECK(testing::user_error_of([&] { Runs::train(again, run, false); }) == "a picture is cut");
    }
    CHECK(std::filesystem::exists(run.checkpoints() / (batch < kBatches ? "step-12" : "step-24")));
    const train::TrainResult rest = Runs::train(again, run, true);
    CHECK(rest.status == TrainStatus::completed);
    CHECK(rest.metrics == expected.metrics);
    CHECK(left_in(run) == left_in(whole));
  }
}

TEST_CASE("a stop in the evaluation of a run without epochs is none of its end", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("run", {"epochs=0"});
  const runs::RunDirectory run = runs.create(loaded);
  {
    const InEvaluation stop(5, [] { std::raise(SIGTERM); });
    CHECK(Runs::train(loaded, run, false).status == TrainStatus::interrupted);
  }
  const train::TrainResult rest = Runs::train(loaded, run, true);
  CHECK(rest.status == TrainStatus::completed);
  CHECK(rest.split == "test");
}

TEST_CASE("a figure that is not defined chooses nothing, and ends no run", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("run", {"checkpoint.best=score"});
  const runs::RunDirectory run = runs.create(loaded);
  const train::TrainResult result = Runs::train(loaded, run, false);
  CHECK(result.status == TrainStatus::completed);
  CHECK(result.split == "test");
  CHECK(std::isnan(result.best.value()));
  CHECK_THAT(testing::read_text(run.log()), Contains("test: score –  loss 0."));
  CHECK_FALSE(train::figure(result.metrics, "score"));

  const config::Loaded defined = runs.loaded("scored", {"checkpoint.best=score", "data.scored=true"});
  CHECK(std::isfinite(Runs::train(defined, runs.create(defined), false).best.value()));
}

TEST_CASE("figures that are no numbers have no sign", "[evaluation]") {
  CHECK(train::metrics_text({{"loss", -std::nan("")}, {"accuracy", 0.5}}, "AP") ==
        "loss nan  accuracy 0.5000  AP –");
}

TEST_CASE("files that an evaluation cannot make cost neither epoch nor figures", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("run", {"data.writes=false"});
  const runs::RunDirectory run = runs.create(loaded);
  const train::TrainResult result = Runs::train(loaded, run, false);
  CHECK(result.status == TrainStatus::failed);
  CHECK_THAT(result.failure, Contains("the files of the last evaluation") && Contains("no file can be made"));
  CHECK(result.steps == 24);
  CHECK(std::filesystem::exists(run.checkpoints() / "step-24"));
  CHECK(left_in(run).count("eval 24 test") == 1);
}

TEST_CASE("a run whose last weights are no numbers has diverged, whatever validation chose", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded =
      runs.loaded("run", {"on_divergence=continue", "data.poisoned=11", "precision.scaler=nvcaffe"});
  const runs::RunDirectory run = runs.create(loaded);
  const train::TrainResult result = Runs::train(loaded, run, false);
  CHECK(result.status == TrainStatus::diverged);
  CHECK_THAT(result.failure, Contains(" holds nan at element 0: training has diverged"));
}
