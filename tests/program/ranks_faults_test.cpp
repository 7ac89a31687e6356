// Ranks that are signalled, killed or stopped, that lack a file or the room for one, and what all of them
// refuse.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/program/ranks.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

// The process of a rank of this run, by what mpirun has told it; 0 before it is there.
pid_t process_of_rank(int rank, const std::string& run) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = read_text(entry.path() / "cmdline");
    if (command.find("run_dir=" + run + '\0') == std::string::npos ||
        command.find("mpirun") != std::string::npos)
      continue;
    const std::string variable = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
    if (('\0' + read_text(entry.path() / "environ")).find(variable) != std::string::npos)
      return static_cast<pid_t>(std::stol(name));
  }
  return 0;
}

constexpr int kHung = -2;

// A run of three ranks without an end, one of which gets a signal once a checkpoint is there. mpirun itself
// may wait for ever for a lock of PMIx then, with all ranks gone (tests/ranks/faults): after a minute it is
// ended, and its exit code is 137.
Outcome disturbed(const TemporaryDirectory& directory, const std::string& run, int rank, int signal,
                  int deadline_s = 30) {
  using Clock = std::chrono::steady_clock;
  const std::string path = (directory / run).string();
  Launch ranks =
      by_ranks(directory, 3,
               in(path, joined(kDigits, {"epochs=100000", "parallel.deadline_s=" + std::to_string(deadline_s),
                                         "checkpoint.every_steps=20", "checkpoint.every_epochs=0",
                                         "eval.every_epochs=0", "log_every=1000"})));
  std::optional<Clock::time_point> sent;
  bool hangs = false;
  const auto begun = Clock::now();
  ranks.watch = [&] {
    if (sent) {
      hangs = Clock::now() - *sent > std::chrono::minutes(1) && process_of_rank(rank, path) == 0;
      return hangs ? SIGKILL : 0;
    }
    if (Clock::now() - begun > std::chrono::minutes(2)) return SIGTERM;
    if (std::filesystem::exists(path + "/checkpoints/latest"))
      if (const pid_t process = process_of_rank(rank, path); process > 0 && ::kill(process, signal) == 0)
        sent = Clock::now();
    return 0;
  };
  Outcome outcome = launch(ranks);
  if (hangs) outcome.exit_code = kHung;
  return outcome;
}

// What is left of it goes on by two ranks.
void check_goes_on(const TemporaryDirectory& directory, const std::string& run) {
  must(run_ranks(directory, 2, {"train", run, "epochs=1", "--limit-steps", "1", "-q"}));
}

}  // namespace

TEST_CASE("a signal to any rank saves once and stops all", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  for (const int rank : {0, 2}) {
    const std::string run = "stopped" + std::to_string(rank);
    const Outcome outcome = disturbed(directory, run, rank, SIGTERM);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 75);
    CHECK_THAT(outcome.out, Catch::Contains("Interrupted after step") &&
                                Catch::Contains("mpirun -n 3 tandem train " + (directory / run).string()));
    CHECK(line_count(outcome.out) == 1);
    CHECK(end_of(directory / run)["status"] == "interrupted");
  }
}

TEST_CASE("a rank that is killed ends the others, and the run goes on", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const Outcome outcome = disturbed(directory, "killed", 1, SIGKILL);
  INFO(outcome.err);
  CHECK(outcome.exit_code != 0);
  if (outcome.exit_code != kHung) CHECK_THAT(outcome.err, Catch::Contains("process rank 1"));
  check_goes_on(directory, "killed");
}

TEST_CASE("a rank that is stopped is named when the deadline has passed", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const Outcome outcome = disturbed(directory, "halted", 2, SIGSTOP, 5);
  INFO(outcome.err);
  CHECK(outcome.exit_code != 0);
  const auto lines = own_lines(outcome);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("rank 2") && Catch::Contains("stopped") &&
                           Catch::Contains("mpirun -n 3 tandem train " + (directory / "halted").string()));
  check_goes_on(directory, "halted");
}

TEST_CASE("a rank whose weights have gone astray is found and named", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  std::ofstream(directory / "pair.json")
      << R"({"task": "pair", "data": {"batches": 30}, "optimizer": {"name": "sgd", "lr": 0.01}, "epochs": 2})";
  Launch ranks =
      by_ranks(directory, 3, {"train", "pair.json", "run_dir=run", "parallel.check_every=10", "-q"},
               tandem::test::tiny_program_path());
  ranks.environment["TINY_DIVERGE"] = "14";
  const Outcome outcome = launch(ranks);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  const auto lines = own_lines(outcome);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             Catch::Contains("after step 20:") && Catch::Contains("master.first.weight of rank 1 "));
}

TEST_CASE("a mistake is told once, and ends every rank alike", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto told = [&](const std::vector<std::string>& arguments, int ranks = 3) {
    const Outcome outcome = run_ranks(directory, ranks, arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    const auto lines = own_lines(outcome);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK_THAT(told(joined(kDigits, {"epoch=3"})), Catch::Contains("unknown key"));
  CHECK_THAT(told({"train", "--nonsense"}), Catch::Contains("--nonsense"));
  CHECK_THAT(told(joined(kDigits, {"parallel.shards=2"})), Catch::Contains("parallel.shards: 2 for 3 ranks"));
  CHECK_THAT(told(joined(kDigits, {"data.batch_size=2"})), Catch::Contains("start at most 2 ranks"));
  CHECK_THAT(told(joined(kDigits, {"data.batch_size=10", "parallel.shards=11"})),
             Catch::Contains("11 shards for a batch of 10 samples"));
  CHECK_THAT(told(joined(kDigits, {"parallel.deadline_s=0"})), Catch::Contains("parallel.deadline_s"));
  CHECK_THAT(told(joined(kDigits, {"parallel.wire=fp16"})),
             Catch::Contains("needs gradients with a loss scale"));
  CHECK_THAT(told(joined(kDigits, {"parallel.wire=bf16", "parallel.reduction=reproducible"})),
             Catch::Contains("adds in FP32"));
  CHECK_THAT(told(joined(kDigits, {"parallel.wire=bf16", "parallel.shards=6"})),
             Catch::Contains("3 ranks have 6"));
  CHECK_THAT(told({"train", "digits_mlp", "init_from=nothing.safetensors"}),
             Catch::Contains("nothing.safetensors"));
  CHECK_THAT(told({"eval", "run"}), Catch::Contains("runs in one process, and mpirun started 3"));
  CHECK_FALSE(std::filesystem::exists(directory / "runs"));
  // A run that another one is training.
  must(run_ranks(directory, 2, in("run", joined(kDigits, {"--limit-steps", "2"}))));
  const int folder = ::open((directory / "run").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(folder, LOCK_EX | LOCK_NB) == 0);
  CHECK_THAT(told({"train", "run"}), Catch::Contains("rank 0 of 3:"));
  ::close(folder);
  // A folder that is there already is left alone.
  must(run_ranks(directory, 3, in("run", joined(kDigits, {"--limit-steps", "2"}))));
  CHECK(std::filesystem::exists(directory / "run-2"));
}

TEST_CASE("every rank ends with the same exit code", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto codes = [&](const std::string& arguments) {
    const std::string line = std::string(tandem::test::program_path()) + " train digits_mlp " + arguments +
                             " -q; echo $? > code$OMPI_COMM_WORLD_RANK";
    launch(by_ranks(directory, 3, {"-c", line}, "/bin/sh"));
    std::vector<std::string> read;
    for (int rank = 0; rank < 3; ++rank) {
      read.push_back(read_text(directory / ("code" + std::to_string(rank))));
      std::filesystem::remove(directory / ("code" + std::to_string(rank)));
    }
    return read;
  };
  using Codes = std::vector<std::string>;
  CHECK(codes("parallel.deadline_s=0") == Codes(3, "2\n"));
  CHECK(codes("parallel.shards=2") == Codes(3, "2\n"));
  CHECK(codes("data.path=/nowhere") == Codes(3, "2\n"));
  CHECK(codes("parallel.wire=fp16") == Codes(3, "2\n"));
  CHECK(codes("run_dir=/proc/run epochs=1") == Codes(3, "1\n"));
  CHECK(codes("run_dir=run epochs=1 data.train_size=100") == Codes(3, "0\n"));
}

TEST_CASE("a host without the data is named", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  write_text(directory);
  std::filesystem::create_directory(directory / "bare");
  // The second rank begins elsewhere, where the file is not.
  const auto train = in((directory / "run").string(), language());
  Launch ranks = by_ranks(directory, 1, train);
  ranks.arguments = joined(joined(ranks.arguments, {":", "-n", "1", "-wdir", (directory / "bare").string(),
                                                    tandem::test::program_path()}),
                           train);
  const Outcome outcome = launch(ranks);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  const auto lines = own_lines(outcome);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("rank 1 of 2:") && Catch::Contains("text.txt"));
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
}

TEST_CASE("keys of several processes are refused where there is one", "[program][ranks]") {
  const TemporaryDirectory directory;
  for (const char* key : {"parallel.per_rank=true", "parallel.wire=bf16"}) {
    const Outcome outcome = run_ranks(directory, 0, in("run", joined(kDigits, {key})));
    CHECK_THAT(refused(outcome), Catch::Contains("needs several processes"));
    CHECK(outcome.exit_code == 2);
  }
}

TEST_CASE("ranks end together where the first one's disk is full", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  // A file system with room for a log, not for a checkpoint.
  const std::filesystem::path disk = directory / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=96k") != 0) {
    WARN("skipped: no file system can be mounted: " << std::strerror(errno));
    return;
  }
  const Outcome outcome =
      run_ranks(directory, 3, in("disk/run", joined(kDigits, {"checkpoint.every_steps=2"})));
  const bool unmounted = ::umount(disk.c_str()) == 0;
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  const auto lines = own_lines(outcome);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("No space left on device"));
  CHECK(unmounted);
}

TEST_CASE("ranks of a user who is not root train as well", "[program][ranks]") {
  if (cannot_be_started()) return;
  if (::geteuid() != 0) {
    WARN("skipped: the tests of ranks run as a user already");
    return;
  }
  const TemporaryDirectory directory;
  constexpr uid_t kNobody = 65534;
  const std::filesystem::path home = directory / "home";
  std::filesystem::create_directory(home);
  REQUIRE(::chown(home.c_str(), kNobody, kNobody) == 0);
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const auto as_nobody = [&](const std::vector<std::string>& words) {
    return Launch{.arguments = joined({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, words),
                  .directory = home.string(),
                  .environment = {{"HOME", home.string()}, {"TMPDIR", home.string()}},
                  .program = "/usr/bin/env"};
  };
  if (const Outcome can = launch(as_nobody({tandem::test::program_path(), "--version"}));
      can.exit_code != 0) {
    WARN("skipped: the program cannot be run by user 65534: " << can.err);
    return;
  }
  const Outcome outcome = launch(as_nobody(
      joined({"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", tandem::test::program_path()},
             in("run", kDigits))));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(end_of(home / "run")["status"] == "completed");
}

TEST_CASE("ranks that wait before the configuration is read wait as long as it says", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  // The first rank begins long after the others.
  const std::string late = R"([ "$OMPI_COMM_WORLD_RANK" = 0 ] && sleep 60; exec "$0" "$@")";
  const Outcome outcome = launch(by_ranks(directory, 3,
                                          joined({"-c", late, tandem::test::program_path()},
                                                 in("run", joined(kDigits, {"parallel.deadline_s=9"}))),
                                          "/bin/sh"));
  INFO(outcome.err);
  CHECK(outcome.exit_code != 0);
  const auto lines = own_lines(outcome);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("rank 0 (") && Catch::Contains("waited for 9."));
}

TEST_CASE("ranks agree on what is best where it could not be saved", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const std::filesystem::path run = directory / "run", folder = run / "checkpoints";
  Launch ranks =
      by_ranks(directory, 2,
               in("run", joined(kDigits, {"epochs=150", "checkpoint.every_epochs=0", "log_every=1000",
                                          "checkpoint.on_save_error=continue"})));
  // From then on nothing can be saved.
  bool in_the_way = false;
  ranks.watch = [&] {
    if (!in_the_way && std::filesystem::exists(folder / "latest")) {
      std::filesystem::rename(folder, run / "before");
      std::ofstream(folder) << "in the way";
      in_the_way = true;
    }
    return 0;
  };
  const Outcome outcome = launch(ranks);
  INFO(outcome.err);
  CHECK(in_the_way);
  CHECK(outcome.exit_code == 1);  // the last checkpoint is missing
  CHECK_THAT(outcome.err, Catch::Contains("could not be saved"));
  CHECK(end_of(run)["status"] == "failed");
}
