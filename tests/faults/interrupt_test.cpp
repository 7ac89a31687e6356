// Runs interrupted repeatedly.
#include <csignal>
#include <random>

#include "tests/faults/runs.h"

using namespace tandem::testing;

TEST_CASE("interrupted a hundred times at random steps, a run ends with the same bits", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, long_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const auto metrics = directory.path() / "run" / "metrics.jsonl";
  const auto size = [&] {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(metrics, error);
    return error ? std::uintmax_t{0} : bytes;
  };
  std::mt19937 random(2);
  int interrupts = 0, after_skips = 0, inside_epochs = 0;
  Outcome outcome;
  do {
    const bool there = std::filesystem::exists(directory.path() / "run" / "config.json");
    const int signal = random() % 2 ? SIGINT : SIGTERM;
    // A step writes about 190 bytes. Resuming may have shortened the file.
    const auto until = size() + random() % 1500;
    bool sent = false;
    outcome =
        launch({.arguments = there ? std::vector<std::string>{"train", "run", "--quiet"} : long_run("run"),
                .directory = directory.path().string(),
                .watch = [&] {
                  if (sent || interrupts >= 100 || size() <= until) return 0;
                  sent = true;
                  return signal;
                }});
    INFO(outcome.err);
    if (outcome.exit_code == 0) break;
    REQUIRE(outcome.exit_code == 75);
    CHECK(outcome.out.find("tandem train run") != std::string::npos);
    ++interrupts;
    const std::string state =
        tandem_in(directory,
                  {"inspect", (newest_checkpoint(directory.path() / "run") / "state.safetensors").string()})
            .out;
    after_skips += state.find("in a row just now") != std::string::npos;
    inside_epochs += state.find(" after 0 samples of it") == std::string::npos;
  } while (interrupts < 1000);
  REQUIRE(outcome.exit_code == 0);
  WARN(interrupts << " interrupts, " << after_skips << " right after a skipped step, " << inside_epochs
                  << " inside an epoch");
  CHECK(interrupts == 100);
  CHECK(after_skips > 0);
  CHECK(inside_epochs > 50);
  CHECK((Remains(directory.path() / "run") == whole));
}
