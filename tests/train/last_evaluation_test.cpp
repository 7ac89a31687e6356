// Evaluations that are interrupted, fail, or lack the metric of the best checkpoint: the run keeps its
// training, and resuming completes the evaluation.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/load.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"
#include "tests/tiny/tasks.h"
#include "tests/train/in_evaluation.h"
#include "train/evaluate.h"
#include "train/trainer.h"

using namespace tandem;
using Catch::Contains;
using test::InEvaluation;
using testing::TemporaryDirectory;
using train::TrainStatus;

namespace fs = std::filesystem;

namespace {

constexpr int kBatches = 12;  // of an epoch, and of an evaluation

// Before anybody asks for the families.
[[maybe_unused]] const bool added = (test::add_tiny_families(), true);

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

// What steps and evaluations leave in metrics.jsonl: "step 12 first", "checkpoint 12", "eval 12 validation",
// "gradients 12", "picture 12 pictures/…".
std::multiset<std::string> left_in(const runs::RunDirectory& run) {
  std::multiset<std::string> left;
  std::ifstream lines(run.metrics());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    const std::string kind = event["event"];
    if (kind == "start" || kind == "end") continue;
    left.insert(fmt::format("{} {} {}{}", kind, event["step"].get<int>(), event.value("split", ""),
                            event.value("file", event.value("phase", ""))));
    if (kind == "picture") CHECK(fs::exists(run.path() / event["file"].get<std::string>()));
  }
  return left;
}

// The steps after which the processes of a run have begun.
std::vector<int> starts_of(const runs::RunDirectory& run) {
  std::vector<int> starts;
  std::ifstream lines(run.metrics());
  for (std::string line; std::getline(lines, line);)
    if (const auto event = nlohmann::json::parse(line); event["event"] == "start")
      starts.push_back(event["step"].get<int>());
  return starts;
}

// Every file of the checkpoints and pictures by its path, but for what the clock tells.
std::map<std::string, std::string> files_of(const runs::RunDirectory& run) {
  std::map<std::string, std::string> files;
  for (const char* folder : {"checkpoints", "pictures"}) {
    for (const auto& entry : fs::recursive_directory_iterator(run.path() / folder)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.starts_with("metrics.json") || name == "SHA256SUMS") continue;
      files[fs::relative(entry.path(), run.path())] = testing::read_text(entry.path());
    }
  }
  return files;
}

ino_t inode_of(const fs::path& file) {
  struct stat found {};
  REQUIRE(::stat(file.c_str(), &found) == 0);
  return found.st_ino;
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

TEST_CASE("a process that is killed in an evaluation has lost nothing", "[evaluation]") {
  const Runs runs;
  const std::vector<std::vector<std::string>> settings{
      {}, {R"(ema={"decay": 0.9})"}, {R"(schedule.plateau={"factor": 0.5})", "optimizer.lr=0.5"}};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    CAPTURE(i);
    const config::Loaded loaded = runs.loaded(fmt::format("whole{}", i), settings[i]);
    const runs::RunDirectory whole = runs.create(loaded);
    // What is on the disk at that instant: in the first validation, the second one, the test.
    const auto killed = [&](int batch) { return fmt::format("killed{}-{}", i, batch); };
    const std::set<int> batches{1, 5, 12, 13, 24, 25, 36};
    train::TrainResult expected;
    {
      const InEvaluation copies([&](int batch) {
        if (batches.contains(batch))
          fs::copy(whole.path(), whole.path().parent_path() / killed(batch), fs::copy_options::recursive);
      });
      expected = Runs::train(loaded, whole, false);
    }
    REQUIRE(expected.status == TrainStatus::completed);
    for (const int batch : batches) {
      CAPTURE(batch);
      const config::Loaded again = runs.loaded(killed(batch), settings[i]);
      const runs::RunDirectory run = runs::RunDirectory::open(again.config.run_dir);
      const train::TrainResult rest = Runs::train(again, run, true);
      CHECK(rest.status == TrainStatus::completed);
      CHECK(rest.metrics == expected.metrics);
      CHECK(starts_of(run) == std::vector<int>{0, batch <= kBatches ? 12 : 24});
      CHECK(left_in(run) == left_in(whole));
      CHECK((files_of(run) == files_of(whole)));
    }
  }
}

TEST_CASE("an evaluation has the weights on the disk written once, and where the run stands twice",
          "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("run");
  const runs::RunDirectory run = runs.create(loaded);
  const auto in = [&](int step, const char* file) {
    return run.checkpoints() / fmt::format("step-{}", step) / file;
  };
  std::map<int, std::pair<ino_t, ino_t>> before;
  std::map<int, std::string> stood;
  {
    const InEvaluation look([&](int batch) {
      if (batch != 1 && batch != kBatches + 1) return;
      const int step = batch == 1 ? 12 : 24;
      before[step] = {inode_of(in(step, "weights.safetensors")), inode_of(in(step, "state.safetensors"))};
      stood[step] = testing::read_text(in(step, "run.json"));
    });
    Runs::train(loaded, run, false);
  }
  REQUIRE(before.size() == 2);
  for (const auto& [step, inodes] : before) {
    CHECK(inode_of(in(step, "weights.safetensors")) == inodes.first);
    CHECK(inode_of(in(step, "state.safetensors")) == inodes.second);
    CHECK_THAT(stood[step], Contains(fmt::format("\"epoch\": {},", step / 12)));
    CHECK_THAT(testing::read_text(in(step, "run.json")),
               Contains(fmt::format("\"epoch\": {},", step / 12 + 1)));
    CHECK_FALSE(runs::CheckpointStore(run.checkpoints()).damage(fmt::format("step-{}", step)));
  }
}

TEST_CASE("an evaluation adds no checkpoint to those that were asked for", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded =
      runs.loaded("run", {"epochs=4", "checkpoint.every_epochs=2", "checkpoint.best=score"});
  const runs::RunDirectory run = runs.create(loaded);
  std::vector<std::set<std::string>> seen;  // in each evaluation
  {
    const InEvaluation look([&](int batch) {
      if (batch % kBatches != 1) return;
      auto& names = seen.emplace_back();
      for (const auto& entry : fs::directory_iterator(run.checkpoints()))
        if (runs::CheckpointStore::is_name(entry.path().filename().string()))
          names.insert(entry.path().filename());
    });
    Runs::train(loaded, run, false);
  }
  // The first figure is the best one so far: it is not finite, and so are the others.
  const std::vector<std::set<std::string>> expected{{},
                                                    {"step-12", "step-24"},
                                                    {"step-12", "step-24"},
                                                    {"step-12", "step-24", "step-48"},
                                                    {"step-12", "step-24", "step-48"}};
  CHECK((seen == expected));
  const auto events = left_in(run);
  CHECK(std::ranges::count_if(events, [](const auto& event) { return event.starts_with("checkpoint "); }) ==
        3);
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
      const InEvaluation fail(batch, [&] {
        CHECK(testing::read_text(run.checkpoints() / "latest") ==
              (batch < kBatches ? "step-12\n" : "step-24\n"));
        throw UserError("", "a picture is cut");
      });
      CHECK(testing::user_error_of([&] { Runs::train(again, run, false); }) == "a picture is cut");
    }
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
  CHECK(fs::exists(run.checkpoints() / "step-24"));
  CHECK(left_in(run).count("eval 24 test") == 1);
}

TEST_CASE("files of an evaluation that could not be written come when the run goes on", "[evaluation]") {
  const Runs runs;
  const config::Loaded loaded = runs.loaded("whole");
  const runs::RunDirectory whole = runs.create(loaded);
  Runs::train(loaded, whole, false);
  const config::Loaded again = runs.loaded("run");
  const runs::RunDirectory run = runs.create(again);
  std::ofstream(run.path() / "pictures") << "in the way of a folder";
  CHECK_THROWS_AS(Runs::train(again, run, false), VendorError);
  CHECK(testing::read_text(run.checkpoints() / "latest") == "step-12\n");
  fs::remove(run.path() / "pictures");
  CHECK(Runs::train(again, run, true).status == TrainStatus::completed);
  CHECK(left_in(run) == left_in(whole));
  CHECK((files_of(run) == files_of(whole)));
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
