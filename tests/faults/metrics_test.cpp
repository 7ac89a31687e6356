// Metrics survive like checkpoints: lost, truncated or changed metrics, and files at their size limit.
#include "tests/faults/runs.h"

using namespace tandem::testing;
using Catch::Contains;

namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// A run that has stopped after its 5th step of 8, and how it would have ended.
class Stopped {
 public:
  Stopped() {
    REQUIRE(tandem_in(directory_, small_run("whole")).exit_code == 0);
    REQUIRE(tandem_in(directory_, small_run("stopped", {"--limit-steps", "5"})).exit_code == 0);
    after([](const fs::path&) {});
    saves_ = Remains(directory_.path() / "run").saves;
    REQUIRE(saves_ == std::multiset<std::int64_t>{3, 4, 5, 6, 8});
  }

  // Does something to a copy of the run, goes on with it, and returns what that said.
  template <class Hurt>
  std::string after(Hurt&& hurt) {
    const auto run = directory_.path() / "run";
    fs::remove_all(run);
    fs::copy(directory_.path() / "stopped", run, fs::copy_options::recursive);
    hurt(run);
    const Outcome outcome = tandem_in(directory_, {"train", "run", "--quiet"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    whole_again_ = Remains(run) == Remains(directory_.path() / "whole") &&
                   (saves_.empty() || Remains(run).saves == saves_);
    CHECK(read_text(run / "checkpoints/metrics.jsonl") == read_text(run / "metrics.jsonl"));
    return outcome.err;
  }
  bool whole_again() const { return whole_again_; }
  std::string metrics() const { return read_text(directory_.path() / "stopped/metrics.jsonl"); }

 private:
  TemporaryDirectory directory_;
  std::multiset<std::int64_t> saves_;
  bool whole_again_ = false;
};

// As a run of an older version left it.
void forget_digests(const fs::path& run) {
  fs::remove(run / "metrics.jsonl.sha256");
  fs::remove(run / "checkpoints/metrics.jsonl");
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (!entry.is_directory()) continue;
    fs::remove(entry.path() / "metrics.json");
    std::string sums;
    std::ifstream file(entry.path() / "SHA256SUMS");
    for (std::string line; std::getline(file, line);)
      if (!line.ends_with("metrics.json")) sums += line + "\n";
    write(entry.path() / "SHA256SUMS", sums);
  }
}

}  // namespace

TEST_CASE("metrics that were lost, cut or changed are mended, and it is said", "[faults][metrics]") {
  Stopped stopped;
  const std::string text = stopped.metrics();
  CHECK(stopped.after([](const fs::path&) {}).empty());
  CHECK(stopped.whole_again());

  const std::string missing = stopped.after([](const fs::path& run) { fs::remove(run / "metrics.jsonl"); });
  CHECK_THAT(missing,
             Contains("warning: run/metrics.jsonl is missing; restored from run/checkpoints/metrics"));
  CHECK(stopped.whole_again());

  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1}) {
    INFO("cut after " << size << " bytes of " << text.size());
    const std::string cut =
        stopped.after([&](const fs::path& run) { write(run / "metrics.jsonl", text.substr(0, size)); });
    CHECK_THAT(cut, Contains("metrics.jsonl ends after " + std::to_string(size) + " of its " +
                             std::to_string(text.size()) + " bytes; restored"));
    CHECK(stopped.whole_again());
  }

  int digits = 0;
  for (std::size_t at = text.find_first_of("0123456789"); at < text.size();
       at = text.find_first_of("0123456789", at + 37 * kStride)) {
    INFO("a digit at byte " << at);
    std::string changed = text;
    changed[at] = changed[at] == '0' ? '7' : static_cast<char>(changed[at] - 1);
    const std::string said =
        stopped.after([&](const fs::path& run) { write(run / "metrics.jsonl", changed); });
    CHECK_THAT(said, Contains("metrics.jsonl is not what the run wrote: its SHA-256 differs; restored"));
    CHECK(stopped.whole_again());
    ++digits;
  }
  CHECK(digits > (kStride > 1 ? 1 : 20));

  const std::string noise = stopped.after(
      [&](const fs::path& run) { write(run / "metrics.jsonl", std::string(text.size(), '\0')); });
  CHECK_THAT(noise, Contains("its SHA-256 differs; restored"));
  CHECK(stopped.whole_again());
}

TEST_CASE("metrics stay what they are when their copy or their digest is hurt", "[faults][metrics]") {
  Stopped stopped;
  const std::string text = stopped.metrics();
  for (const char* spare : {"checkpoints/metrics.jsonl", "metrics.jsonl.sha256"}) {
    INFO(spare);
    CHECK(stopped.after([&](const fs::path& run) { fs::remove(run / spare); }).empty());
    CHECK(stopped.whole_again());
    CHECK(stopped.after([&](const fs::path& run) { write(run / spare, std::string(64, 'a') + "  x\n"); })
              .empty());
    CHECK(stopped.whole_again());
  }
  // Both texts at once: what the checkpoint knows stays, and what it does not is left out.
  std::string changed = text;
  const std::size_t wall = text.find("wall_s\":") + 8;
  changed[wall] = changed[wall] == '9' ? '1' : '9';
  const std::string rest = stopped.after([&](const fs::path& run) {
    write(run / "metrics.jsonl", changed);
    write(run / "checkpoints/metrics.jsonl", text.substr(0, wall));
  });
  CHECK_THAT(rest, Contains("lines after the checkpoint at step 5 are left out"));
  CHECK(stopped.whole_again());
  // Before the checkpoint: nothing is left to mend it with; what can be read stays.
  changed = text;
  changed[text.find("\"loss\":", text.find("\"event\":\"step\"")) + 7] = 'x';
  const std::string lost = stopped.after([&](const fs::path& run) {
    write(run / "metrics.jsonl", changed);
    fs::remove(run / "checkpoints/metrics.jsonl");
  });
  CHECK_THAT(lost, Contains("cannot replace it; its readable lines are kept") &&
                       Contains("1 of its lines cannot be read and was left out"));
  CHECK_FALSE(stopped.whole_again());
}

TEST_CASE("a run of an older version goes on without digests", "[faults][metrics]") {
  Stopped stopped;
  CHECK(stopped.after(forget_digests).empty());
  CHECK(stopped.whole_again());
  const std::string torn = stopped.after([&](const fs::path& run) {
    forget_digests(run);
    write(run / "metrics.jsonl", stopped.metrics() + "{\"event\":\"st");
  });
  CHECK(torn.empty());
  CHECK(stopped.whole_again());
  const std::string missing = stopped.after([&](const fs::path& run) {
    forget_digests(run);
    fs::remove(run / "metrics.jsonl");
  });
  CHECK_THAT(missing, Contains("metrics.jsonl is missing") && Contains("earlier metrics are lost"));
}

TEST_CASE("a checkpoint that nothing was written of is written of", "[faults][metrics]") {
  Stopped stopped;
  std::string kept;
  std::istringstream lines(stopped.metrics());
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(R"({"event":"checkpoint","step":5,)")) kept += line + "\n";
  REQUIRE(kept.size() < stopped.metrics().size());
  // As a process leaves it that ends before the event: the run of an older version, so that no digest
  // objects.
  const std::string said = stopped.after([&](const fs::path& run) {
    forget_digests(run);
    write(run / "metrics.jsonl", kept);
  });
  CHECK(said.empty());
  CHECK(stopped.whole_again());
}

TEST_CASE("a file that reaches the largest size ends a run, saved", "[faults][metrics]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings{"epochs=20", "data.batch_size=50", "model.hidden=[8]",
                                          "tensorboard=false", "checkpoint.every_epochs=20"};
  const auto limited = [&](const std::vector<std::string>& arguments, std::size_t bytes) {
    return launch({.arguments = arguments, .directory = directory.path().string(), .largest_file = bytes});
  };
  REQUIRE(tandem_in(directory, quiet_run("whole", settings)).exit_code == 0);
  const Remains whole(directory.path() / "whole");

  const Outcome stopped = limited(quiet_run("run", settings), 40000);
  INFO(stopped.err);
  CHECK(stopped.exit_code == 1);
  CHECK_THAT(stopped.err, Contains("run/metrics.jsonl: cannot be written: File too large") &&
                              Contains("tandem train run"));
  // Nothing that was trained is lost: more steps than the file has room for.
  const auto steps = std::stoll(newest_checkpoint(directory.path() / "run").filename().string().substr(5));
  CHECK(steps > 150);
  CHECK(steps < 600);
  const Outcome resumed = tandem_in(directory, {"train", "run", "--quiet"});
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK(resumed.err.empty());
  CHECK((saved_tensors(directory.path() / "run", "state") ==
         saved_tensors(directory.path() / "whole", "state")));
  CHECK(Remains(directory.path() / "run").events == whole.events);

  // To the end, and a failure all the same; the checkpoints have what the file has not.
  auto regardless = settings;
  regardless.emplace_back("checkpoint.on_save_error=continue");
  const Outcome full = limited(quiet_run("full", regardless), 40000);
  INFO(full.err);
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("File too large; training goes on (checkpoint.on_save_error)"));
  const Outcome mended = tandem_in(directory, {"train", "full", "--quiet"});
  INFO(mended.err);
  CHECK(mended.exit_code == 0);
  CHECK(Remains(directory.path() / "full").events == whole.events);

  // A checkpoint that is too large is an error like any other.
  const Outcome large = limited(small_run("large", {"model.hidden=[512,256]"}), 100000);
  INFO(large.err);
  CHECK(large.exit_code == 1);
  CHECK_THAT(large.err, Contains("checkpoints/step-") && Contains("File too large"));

  // The log ends nothing.
  REQUIRE(tandem_in(directory, small_run("log", {"--limit-steps", "5", "tensorboard=false"})).exit_code == 0);
  std::ofstream(directory.path() / "log/log.txt", std::ios::app) << std::string(200000, '#') << "\n";
  const Outcome logless = limited({"train", "log", "--quiet"}, 190000);
  INFO(logless.err);
  CHECK(logless.exit_code == 0);
  CHECK_THAT(logless.err, Contains("log/log.txt: cannot be written: File too large; training goes on"));
}
