// Disks that fail, are full, or lack links.
#include <sys/mount.h>

#include "tests/faults/runs.h"

using namespace tandem::testing;
using Catch::Contains;

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
  CHECK_THAT(full.err, Contains("the files of the last evaluation could not be written"));
  CHECK(json_lines(directory.path() / "run/metrics.jsonl").back()["status"] == "failed");
  CHECK(tandem_in(directory, {"train", "run", "--quiet"}).exit_code == 0);
}

namespace {

// Other calls fail for other reasons, as they do with EIO.
bool takes_room(const std::string& call) {
  return call == "mkdir" || call == "open" || call == "write" || call == "link";
}

}  // namespace

TEST_CASE("a disk that is full, or fails, costs no checkpoint that there was", "[faults]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, small_run("whole")).exit_code == 0);
  const Remains whole(directory.path() / "whole");
  const std::vector<std::string> calls = calls_of(directory, {}, "/checkpoints");
  for (const std::string error : {"ENOSPC", "EIO"}) {
    for (std::size_t n = 2; n <= calls.size(); n += kStride) {  // the first makes the run's directory
      if (error == "ENOSPC" && !takes_room(calls[n - 1])) continue;
      INFO(error << " at call " << n);
      const std::string run = error + std::to_string(n);
      const auto start = small_run(run);
      const Outcome hurt = with_faults(directory, start, error + ":" + std::to_string(n), "/checkpoints");
      INFO(hurt.err);
      if (hurt.exit_code != 0) {
        REQUIRE(hurt.exit_code == 1);
        CHECK_THAT(hurt.err, Contains(error == "EIO" ? "Input/output error" : "No space left on device") &&
                                 (Contains("tandem train " + run) || Contains("Run directory: " + run)));
        const Outcome outcome = go_on(directory, run, start);
        INFO(outcome.err);
        // Its last line may be what could not be written.
        if (outcome.exit_code != 0) CHECK_THAT(outcome.err, Contains("has completed"));
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
  CHECK_THAT(once.err, Contains("warning: the checkpoint was not saved") && Contains("Input/output error") &&
                           Contains("training goes on"));
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
  CHECK_THAT(beside.err, Contains("confusion.csv") && Contains("No space left") &&
                             Contains("the files of the last evaluation could not be written"));
  CHECK(tandem_in(directory, {"train", "beside", "--quiet"}).exit_code == 0);
  CHECK(std::filesystem::exists(directory.path() / "beside/confusion.csv"));
  // A disk that stays full: trained to the end, and a failure all the same.
  start = small_run("full", {"checkpoint.on_save_error=continue"});
  const Outcome full = with_faults(directory, start, "ENOSPC:40", "/checkpoints");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("the last checkpoint could not be saved"));
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
  CHECK_THAT(outcome.err, Contains("the last checkpoint could not be saved") &&
                              Contains("the test split is not evaluated"));
  const auto events = json_lines(directory.path() / "run/metrics.jsonl");
  CHECK(events.back()["status"] == "failed");
  CHECK(events.back()["steps"] == 6);
  for (const auto& event : events) CHECK((event["event"] != "eval" || event["split"] == "validation"));
}

TEST_CASE("a file system that is full costs no checkpoint", "[faults]") {
  const TemporaryDirectory directory;
  const auto disk = directory.path() / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tandem-test", disk.c_str(), "tmpfs", 0, "size=320k") != 0) {
    WARN("skipped: a small file system cannot be mounted here");
    return;
  }
  struct Unmount {
    std::filesystem::path path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } const unmount{disk};
  const auto settings = std::vector<std::string>{"epochs=6", "data.batch_size=400", "checkpoint.keep=100"};
  REQUIRE(tandem_in(directory, quiet_run("whole", settings)).exit_code == 0);
  const Outcome full = tandem_in(directory, quiet_run("disk/run", settings));
  INFO(full.err);
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("No space left on device") && Contains("tandem train disk/run"));
  REQUIRE(::mount("tandem-test", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0);
  const Outcome outcome = tandem_in(directory, {"train", "disk/run", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK((Remains(disk / "run") == Remains(directory.path() / "whole")));
}
