// Runs killed at each file operation of a save, and at any time: they resume, and end with the bits of an
// undisturbed run.
#include <csignal>
#include <random>

#include "tests/faults/runs.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

// Kills a run at its calls on `path`, one after the other, goes on with it, and expects what a whole run
// leaves.
void check_every_call(const std::vector<std::string>& settings, const std::string& path) {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole", settings)).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const std::size_t calls = calls_of(directory, settings, path).size();
  REQUIRE(calls >= 40);
  for (std::size_t n = 1; n <= calls; n += kStride) {
    INFO("call " << n << " of " << calls);
    const std::string run = "run" + std::to_string(n);
    const auto start = small_run(run, settings);
    REQUIRE(with_faults(directory, start, "exit:" + std::to_string(n), path).exit_code == 99);
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

}  // namespace

TEST_CASE("a run that ends at any call on any of its files goes on bit for bit", "[faults]") {
  check_every_call({"model.hidden=[8]", "precision=amp_fp16", "accumulate=2", "ema={\"decay\": 0.9}"}, "run");
}

TEST_CASE("a run that ends while a large file is written goes on bit for bit", "[faults]") {
  check_every_call({"model.hidden=[512,256]"}, ".safetensors");
}

TEST_CASE("a run that has ended has its table", "[faults]") {
  const TemporaryDirectory directory;
  const auto start = small_run("run");
  REQUIRE(with_faults(directory, start, "exit:1", "/metrics.csv").exit_code == 99);
  CHECK(tandem_in(directory, {"train", "run", "--quiet"}).exit_code == 0);
  CHECK(std::filesystem::exists(directory.path() / "run/metrics.csv"));
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
