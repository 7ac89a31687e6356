// Runs killed at each file operation of a save, and at any time: they resume, and end with the bits of an
// undisturbed run.
#include <csignal>
#include <random>

#include "tests/faults/runs.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

using Environment = std::map<std::string, std::string>;

Outcome with_faults(const TemporaryDirectory& directory, const std::vector<std::string>& arguments,
                    const std::string& fault, const std::string& path, const Environment& more = {}) {
  Environment environment{{"LD_PRELOAD", TANDEM_FAULTS},
                          {"TANDEM_FAULT", fault},
                          {"TANDEM_FAULT_PATH", path},
                          {"TANDEM_FAULT_LOG", directory.path() / "calls"}};
  // The sanitizer's runtime would have to be the first library.
  environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0";
  environment.insert(more.begin(), more.end());
  return launch({.arguments = arguments, .directory = directory.path().string(), .environment = environment});
}

// How many calls on `path` a run makes.
std::size_t calls_of(const TemporaryDirectory& directory, const std::vector<std::string>& settings,
                     const std::string& path) {
  REQUIRE(with_faults(directory, small_run("counted", settings), "count", path).exit_code == 0);
  return line_count(read_text(directory.path() / "calls"));
}

}  // namespace

TEST_CASE("a run that ends at any call of a save goes on bit for bit", "[faults]") {
  for (const std::string hidden : {"[8]", "[512,256]"}) {
    INFO("hidden layers " << hidden);
    const TemporaryDirectory directory;
    const std::vector<std::string> settings{"model.hidden=" + hidden};
    REQUIRE(tandem_in(directory, small_run("whole", settings)).exit_code == 0);
    const Remains whole(directory.path() / "whole");
    const std::size_t calls = calls_of(directory, settings, "/checkpoints");
    REQUIRE(calls > 80);
    for (std::size_t n = 1; n <= calls; n += kStride) {
      INFO("call " << n << " of " << calls);
      const std::string run = "run" + std::to_string(n);
      const auto start = small_run(run, settings);
      REQUIRE(with_faults(directory, start, "exit:" + std::to_string(n), "/checkpoints").exit_code == 99);
      const Outcome outcome = go_on(directory, run, start);
      INFO(outcome.err);
      // The last calls come after the run has completed.
      if (outcome.exit_code != 0) CHECK_THAT(outcome.err, Catch::Contains("has completed"));
      REQUIRE((Remains(directory.path() / run) == whole));
      REQUIRE(Remains(directory.path() / run).saves == whole.saves);
      for (const auto& entry : std::filesystem::directory_iterator(directory.path() / run / "checkpoints"))
        REQUIRE(entry.path().filename().string().find(".tmp-") == std::string::npos);
      std::filesystem::remove_all(directory.path() / run);
    }
  }
}

TEST_CASE("a run that ends at any call on any of its files goes on bit for bit", "[faults]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings{"precision=amp_fp16", "accumulate=2", "ema={\"decay\": 0.9}"};
  REQUIRE(tandem_in(directory, small_run("whole", settings)).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const std::size_t calls = calls_of(directory, settings, "counted");
  for (std::size_t n = 1; n <= calls; n += kStride) {
    INFO("call " << n << " of " << calls);
    const std::string run = "run" + std::to_string(n);
    const auto start = small_run(run, settings);
    REQUIRE(with_faults(directory, start, "exit:" + std::to_string(n), run).exit_code == 99);
    const Outcome outcome = go_on(directory, run, start);
    INFO(outcome.err);
    // The last calls come after the run has completed.
    if (outcome.exit_code != 0) CHECK_THAT(outcome.err, Catch::Contains("has completed"));
    REQUIRE((Remains(directory.path() / run) == whole));
    REQUIRE(Remains(directory.path() / run).saves == whole.saves);
    std::filesystem::remove_all(directory.path() / run);
  }
}

TEST_CASE("a file system without links, or without exchange, has the same checkpoints", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  for (const std::string lacking : {"link", "exchange"}) {
    INFO(lacking);
    const Outcome outcome = with_faults(directory, small_run(lacking), "count", "/checkpoints/step-",
                                        {{"TANDEM_FAULT_WITHOUT", lacking}});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(read_text(directory.path() / "calls").find(" link ") != std::string::npos);
    CHECK((Remains(directory.path() / lacking) == whole));
  }
}

TEST_CASE("a run that has ended has its table", "[faults]") {
  const TemporaryDirectory directory;
  const auto start = small_run("run");
  REQUIRE(with_faults(directory, start, "exit:1", "/metrics.csv").exit_code == 99);
  CHECK(tandem_in(directory, {"train", "run", "--quiet"}).exit_code == 0);
  CHECK(std::filesystem::exists(directory.path() / "run/metrics.csv"));
}

TEST_CASE("files of the test pass that a full disk did not take fail the run, which goes on", "[faults]") {
  const TemporaryDirectory directory;
  const auto start = small_run(
      "run", {"checkpoint.on_save_error=continue", "data.validation_size=300", "eval.confusion=true"});
  REQUIRE(with_faults(directory, start, "count", "/confusion.csv").exit_code == 0);
  const std::size_t calls = line_count(read_text(directory.path() / "calls"));  // of validation and of test
  std::filesystem::remove_all(directory.path() / "run");
  const Outcome full =
      with_faults(directory, start, fmt::format("ENOSPC:{}", calls / 2 + 1), "/confusion.csv");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Catch::Contains("the files of the last evaluation could not be written"));
  CHECK(json_lines(directory.path() / "run/metrics.jsonl").back()["status"] == "failed");
  CHECK(tandem_in(directory, {"train", "run", "--quiet"}).exit_code == 0);
}

TEST_CASE("a disk that is full, or fails, costs no checkpoint that there was", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const std::size_t calls = calls_of(directory, {}, "/checkpoints");
  for (const std::string error : {"ENOSPC", "EIO"}) {
    for (std::size_t n = 2; n <= calls; n += kStride) {  // the first makes the run's directory
      INFO(error << " at call " << n);
      const std::string run = error + std::to_string(n);
      const auto start = small_run(run);
      const Outcome hurt = with_faults(directory, start, error + ":" + std::to_string(n), "/checkpoints");
      INFO(hurt.err);
      if (hurt.exit_code != 0) {
        REQUIRE(hurt.exit_code == 1);
        CHECK_THAT(hurt.err,
                   Catch::Contains(error == "EIO" ? "Input/output error" : "No space left on device") &&
                       (Catch::Contains("tandem train " + run) || Catch::Contains("Run directory: " + run)));
        const Outcome outcome = go_on(directory, run, start);
        INFO(outcome.err);
        // Its last line may be what could not be written.
        if (outcome.exit_code != 0) CHECK_THAT(outcome.err, Catch::Contains("has completed"));
      }
      REQUIRE((Remains(directory.path() / run) == whole));
      std::filesystem::remove_all(directory.path() / run);
    }
  }
}

TEST_CASE("a run may go on without a checkpoint, and says so", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole")).exit_code == 0);
  auto start = small_run("run", {"checkpoint.on_save_error=continue"});
  // One failing call in the first save; later ones succeed.
  const Outcome once = with_faults(directory, start, "EIO:4", "/checkpoints/step-");
  INFO(once.err);
  CHECK(once.exit_code == 0);
  CHECK_THAT(once.err, Catch::Contains("warning: the checkpoint was not saved") &&
                           Catch::Contains("Input/output error") && Catch::Contains("training goes on"));
  CHECK((saved_tensors(directory.path() / "run", "state") ==
         saved_tensors(directory.path() / "whole", "state")));
  // The best so far could not be saved: what is evaluated next is the best then, though it is no better.
  start = small_run("best", {"checkpoint.on_save_error=continue", "optimizer.lr=1e-12"});
  REQUIRE(with_faults(directory, start, "EIO:51", "/checkpoints/step-").exit_code == 0);
  CHECK(read_text(directory.path() / "best/checkpoints/best") == "step-8\n");
  // What could not be saved before its evaluation is saved after it.
  start = small_run("later", {"checkpoint.on_save_error=continue", "optimizer.lr=1e-12"});
  REQUIRE(with_faults(directory, start, "EIO:26", "/checkpoints/step-").exit_code == 0);
  CHECK(read_text(directory.path() / "later/checkpoints/best") == "step-4\n");
  // The files of the last evaluation count as its checkpoint does.
  start = small_run("beside", {"checkpoint.on_save_error=continue", "eval.confusion=true"});
  const Outcome beside = with_faults(directory, start, "ENOSPC:1", "confusion.csv");
  CHECK(beside.exit_code == 1);
  CHECK_THAT(beside.err, Catch::Contains("confusion.csv") && Catch::Contains("No space left") &&
                             Catch::Contains("the files of the last evaluation could not be written"));
  CHECK(tandem_in(directory, {"train", "beside", "--quiet"}).exit_code == 0);
  CHECK(std::filesystem::exists(directory.path() / "beside/confusion.csv"));
  // A disk that stays full: trained to the end, and a failure all the same.
  start = small_run("full", {"checkpoint.on_save_error=continue"});
  const Outcome full = with_faults(directory, start, "ENOSPC:40", "/checkpoints");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Catch::Contains("the last checkpoint could not be saved"));
  CHECK(json_lines(directory.path() / "full/metrics.jsonl").back()["steps"] == 8);
  CHECK(tandem_in(directory, {"train", "full", "--quiet"}).exit_code == 0);
  CHECK((saved_tensors(directory.path() / "full", "state") ==
         saved_tensors(directory.path() / "whole", "state")));
}

TEST_CASE("a run whose every save failed ends without the test of its best weights", "[faults]") {
  const TemporaryDirectory directory;
  const auto start = small_run("run", {"checkpoint.on_save_error=continue", "data.validation_size=300"});
  const Outcome outcome = with_faults(directory, start, "ENOSPC:1", "/checkpoints/step-");
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Catch::Contains("the last checkpoint could not be saved") &&
                              Catch::Contains("the test split is not evaluated"));
  const auto events = json_lines(directory.path() / "run/metrics.jsonl");
  CHECK(events.back()["status"] == "failed");
  CHECK(events.back()["steps"] == 6);
  for (const auto& event : events) CHECK((event["event"] != "eval" || event["split"] == "validation"));
}

TEST_CASE("killed in an evaluation, a run goes on with it and trains no epoch twice", "[faults]") {
  const TemporaryDirectory directory;
  // Evaluations that take long beside the rest: a sample at a time.
  const auto start = [](const std::string& run) {
    return quiet_run(run, {"model=resnet20", "epochs=2", "data.batch_size=400", "data.validation_size=900",
                           "data.eval_batch_size=1", "tensorboard=false"});
  };
  REQUIRE(tandem_in(directory, start("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const auto steps = *whole.saves.begin();  // of an epoch
  REQUIRE((whole.saves == std::multiset<std::int64_t>{steps, 2 * steps}));
  // Of the first epoch, and of the best weights in the end: seen by what is on the disk before them.
  const auto checkpoint = [](std::int64_t step) { return fmt::format("checkpoints/step-{}/run.json", step); };
  struct Kill {
    std::string name, file, text;
    std::int64_t step;
  };
  const Kill kills[] = {{"first", "metrics.jsonl", fmt::format(R"("checkpoint","step":{},)", steps), steps},
                        {"test", checkpoint(2 * steps), R"("epoch": 3)", 2 * steps}};
  for (const Kill& kill : kills) {
    INFO(kill.name);
    const auto run = directory.path() / kill.name;
    const Outcome killed =
        launch({.arguments = start(kill.name), .directory = directory.path().string(), .watch = [&] {
                  const bool there = read_text(run / kill.file).find(kill.text) != std::string::npos;
                  return there ? SIGKILL : 0;
                }});
    REQUIRE(killed.exit_code == 128 + SIGKILL);
    for (const json& event : json_lines(run / "metrics.jsonl"))
      CHECK((event["event"] != "eval" || (kill.step > steps && event["split"] == "validation")));
    REQUIRE(tandem_in(directory, {"train", kill.name, "--quiet"}).exit_code == 0);
    std::vector<std::int64_t> starts;
    for (const json& event : events_of(run, "start")) starts.push_back(event["step"].get<std::int64_t>());
    CHECK(starts == std::vector<std::int64_t>{0, kill.step});
    CHECK((Remains(run) == whole));
    CHECK(Remains(run).saves == whole.saves);
    for (const char* name : {"best", "latest"})
      CHECK(read_text(run / "checkpoints" / name) ==
            read_text(directory.path() / "whole/checkpoints" / name));
  }
}

TEST_CASE("fifty times killed, a run ends with the same bits", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, long_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const auto start = long_run("run");
  std::mt19937 random(1);
  int kills = 0;
  Outcome outcome;
  for (int launches = 0; launches < 400; ++launches) {
    const bool there = std::filesystem::exists(directory.path() / "run" / "config.json");
    const int longest = 80 * (kStride > 1 ? 4 : 1);  // of a process, most of which is its start
    const auto wait = std::chrono::milliseconds(std::uniform_int_distribution<int>(1, longest)(random));
    const auto begun = std::chrono::steady_clock::now();
    outcome = launch({.arguments = there ? std::vector<std::string>{"train", "run", "--quiet"} : start,
                      .directory = directory.path().string(),
                      .watch = [&] {
                        const bool due = std::chrono::steady_clock::now() - begun > wait;
                        return kills < 50 && due ? SIGKILL : 0;
                      }});
    INFO(outcome.err);
    // The last signal may come when the run has ended and the program has not.
    if (outcome.exit_code == 0 || outcome.err.find("has completed") != std::string::npos) break;
    REQUIRE(outcome.exit_code == 128 + SIGKILL);
    ++kills;
  }
  CHECK(kills >= (kStride > 1 ? 10 : 40));
  WARN("killed " << kills << " times");
  CHECK((Remains(directory.path() / "run") == whole));
  CHECK(Remains(directory.path() / "run").saves == whole.saves);
}
