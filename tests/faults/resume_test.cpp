// Resuming runs: those that may resume, and their state.
#include "tests/faults/runs.h"

using namespace tandem::testing;
using Catch::Contains;

namespace {

// Goes on to the end with something else than before; the outcome.
Outcome resumed_with(const TemporaryDirectory& directory, const std::string& run,
                     const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments{"train", run};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  return tandem_in(directory, arguments);
}

}  // namespace

TEST_CASE("a run goes on in another precision, and says so", "[faults][resume]") {
  const std::string levels[] = {"fp32", "amp_fp16", "amp_bf16", R"({"level": "O3", "dtype": "bf16"})"};
  for (const std::string& from : levels) {
    for (const std::string& to : levels) {
      if (from == to) continue;
      INFO(from << " to " << to);
      const TemporaryDirectory directory;
      REQUIRE(tandem_in(directory, small_run("run", {"precision=" + from, "--limit-steps", "5"})).exit_code ==
              0);
      const Outcome outcome = resumed_with(directory, "run", {"precision=" + to});
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      CHECK_THAT(outcome.err, Contains("changed: precision") && Contains("from the FP32 masters") &&
                                  Contains("resumed after step 5"));
      CHECK(json_lines(directory.path() / "run/metrics.jsonl").back()["steps"] == 8);
      // It is that run from now on.
      CHECK(json_lines(directory.path() / "run/metrics.jsonl").back()["status"] == "completed");
    }
  }
}

TEST_CASE("a run refuses another model or optimizer, and takes more epochs", "[faults][resume]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("run")).exit_code == 0);
  const std::string state = saved(directory.path() / "run", "state");
  CHECK_THAT(resumed_with(directory, "run", {}).err,
             Contains("has completed") && Contains("epochs=N") && Contains("run/config.json"));
  const Outcome other = resumed_with(directory, "run", {"epochs=4", "optimizer.lr=0.3", "model.hidden=[7]"});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Contains("optimizer.lr: ") && Contains(" → 0.3") && Contains("model.hidden.0: ") &&
                            Contains("init_from=RUN"));
  CHECK(saved(directory.path() / "run", "state") == state);
  CHECK_THAT(read_text(directory.path() / "run/config.json"), Contains("\"epochs\": 2"));
  const Outcome longer = resumed_with(directory, "run", {"epochs=4", "log_every=2"});
  INFO(longer.err);
  CHECK(longer.exit_code == 0);
  CHECK_THAT(longer.err, Contains("changed: epochs: 2 → 4") && Contains("changed: log_every: 1 → 2"));
  CHECK(json_lines(directory.path() / "run/metrics.jsonl").back()["steps"] == 16);
}

TEST_CASE("a damaged checkpoint is passed over, and the log says so", "[faults][resume]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  REQUIRE(tandem_in(directory, small_run("run", {"--limit-steps", "7"})).exit_code == 0);
  const auto newest = newest_checkpoint(directory.path() / "run");
  CHECK(newest.filename() == "step-7");
  std::string state = read_text(newest / "state.safetensors");
  state[state.size() / 2] ^= 4;
  std::ofstream(newest / "state.safetensors", std::ios::binary) << state;
  CHECK(tandem_in(directory, {"eval", "run", "--weights", "step-7"}).exit_code == 2);
  CHECK(tandem_in(directory, {"eval", "run", "--weights", "last"}).exit_code == 0);
  const Outcome outcome = resumed_with(directory, "run", {});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Contains("step-7 is damaged and not used: the SHA-256 of state.safetensors"));
  CHECK_THAT(read_text(directory.path() / "run/log.txt"), Contains("step-7 is damaged and not used"));
  CHECK((Remains(directory.path() / "run") == whole));

  for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "run/checkpoints"))
    if (entry.is_directory()) std::filesystem::remove(entry.path() / "SHA256SUMS");
  const Outcome none = resumed_with(directory, "run", {"epochs=3"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("every checkpoint is damaged"));
}

TEST_CASE("two processes do not train one run", "[faults][resume]") {
  const TemporaryDirectory directory;
  const auto metrics = directory.path() / "run/metrics.jsonl";
  std::string second;
  const Outcome first = launch({.arguments = quiet_run("run", {"epochs=100000", "data.batch_size=100"}),
                                .directory = directory.path().string(),
                                .watch = [&] {
                                  std::error_code error;
                                  if (std::filesystem::file_size(metrics, error) < 300 || error) return 0;
                                  if (second.empty()) second = tandem_in(directory, {"train", "run"}).err;
                                  return 2;  // SIGINT
                                }});
  CHECK((first.exit_code == 75 || first.exit_code == 130));
  CHECK_THAT(second, Contains("another process is training this run"));
}

TEST_CASE("a saved state is readable by people", "[faults][resume]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("run", {"precision=amp_fp16", "ema={\"decay\": 0.9}"})).exit_code ==
          0);
  const Outcome outcome = tandem_in(directory, {"inspect", "run/checkpoints/step-8/state.safetensors"});
  CHECK_THAT(outcome.out, Contains("state: 8 steps attempted, 8 applied, 0 skipped; goes on in epoch 3") &&
                              Contains("loss scale 65536") && Contains("best 0."));
  CHECK_THAT(outcome.out, Contains("average.fc1.weight") && Contains("master.fc1.weight"));
}
