// Several processes started by mpirun train one model: the bits of one process for any number of ranks,
// failures of one rank, and errors of all.
#include "tests/program/ranks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "files/safetensors.h"
#include "tests/support/uneven_data.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

// Where none can be started, the tests that need them say so and pass.
bool cannot_be_started() {
  const std::string why = why_no_ranks();
  if (why.empty()) return false;
  if (std::getenv("TANDEM_REQUIRE_RANKS")) FAIL("no ranks: " << why);
  WARN("skipped: " << why);
  return true;
}

// The lines of Tandem's own; mpirun adds some where a process has ended with an exit code.
std::vector<std::string> own_lines(const Outcome& outcome) {
  std::vector<std::string> lines;
  std::istringstream text(outcome.err);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("tandem: ") || line.starts_with("rank ")) lines.push_back(line);
  return lines;
}

std::string name_of(int ranks) { return "run" + std::to_string(ranks); }

// Files of a text, so that a language model has something to read.
void write_text(const TemporaryDirectory& directory) {
  std::ofstream file(directory / "text.txt");
  const char* const who[] = {"a cat", "the dog", "one bird", "my fish"};
  const char* const does[] = {"eats", "sees", "likes", "finds", "hears"};
  for (int i = 0; i < 240; ++i)
    file << who[i % 4] << ' ' << does[i * i % 5] << ' ' << who[(i / 3 + 1) % 4] << '\n';
}

const std::vector<std::string> kDigits{"train", "digits_mlp", "epochs=2", "data.train_size=200"};
const std::vector<std::string> kResNet{"train",
                                       "fashion_resnet8_table",
                                       "schedule.warmup_steps=2",
                                       "epochs=1",
                                       "data.train_size=200",
                                       "data.test_size=60",
                                       "data.batch_size=24",
                                       "precision=amp_bf16"};
const std::vector<std::string> kDetector{
    "train", "ssd_scenes", "epochs=1", "data.train_size=40", "data.test_size=12", "data.batch_size=16"};
const std::vector<std::string> kGan{
    "train",         "dcgan_fashion",      "epochs=1",         "data.train_size=64",
    "model.width=4", "data.batch_size=16", "data.test_size=64"};

std::vector<std::string> language() {
  return {"train",
          "debian_lstm",
          R"(data={"name": "text", "train": "text.txt", "validation": "text.txt", "test": "text.txt",
                   "batch_size": 6, "steps": 9, "random_steps": true})",
          R"(model={"name": "language_model", "embedding": 8, "units": 8, "num_layers": 2, "dropout": 0.2})",
          "precision=fp32",
          "optimizer.lr=1",
          "epochs=2"};
}

std::vector<std::string> in(const std::string& run, std::vector<std::string> arguments) {
  return joined(std::move(arguments), {"run_dir=" + run, "threads=1", "-q"});
}

// Trains with 0 to so many ranks, and expects the same end to the bit.
void check_same_bits(const std::vector<std::string>& arguments, const std::vector<int>& ranks, int shards) {
  const TemporaryDirectory directory;
  write_text(directory);
  const auto reproducible =
      joined(arguments, {"parallel.reduction=reproducible", "parallel.shards=" + std::to_string(shards)});
  for (const int count : ranks) must(run_ranks(directory, count, in(name_of(count), reproducible)));
  for (const int count : ranks) {
    INFO(count << " ranks against " << ranks.front());
    CHECK(same_end(directory / name_of(count), directory / name_of(ranks.front())));
  }
}

std::vector<double> weights_of(const std::filesystem::path& run) {
  const tandem::safetensors::File file((newest_checkpoint(run) / "weights.safetensors").string());
  std::vector<double> weights;
  for (const auto& entry : file.entries()) {
    const auto values = file.read(entry).to_vector<double>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

std::vector<double> losses_of(const std::filesystem::path& run) {
  std::vector<double> losses;
  for (const auto& event : events_of(run, "step")) losses.push_back(event["loss"]);
  return losses;
}

}  // namespace

TEST_CASE("any number of ranks trains with the bits of one process", "[program][ranks]") {
  if (cannot_be_started()) return;
  SECTION("a classifier of rows") { check_same_bits(kDigits, {0, 1, 2, 3, 4, 8}, 8); }
  SECTION("batch norm, in BF16") { check_same_bits(kResNet, {0, 2, 3}, 4); }
  SECTION("a detector") { check_same_bits(kDetector, {0, 2, 3}, 4); }
  SECTION("two networks") { check_same_bits(kGan, {0, 2, 3}, 4); }
  SECTION("a state that is carried") { check_same_bits(language(), {0, 2, 4}, 5); }
  SECTION("steps that overflow and are done again") {
    check_same_bits(joined(language(), {R"(precision={"level": "O1", "dtype": "fp16", "on_skip": "retry",
                      "scaler": {"initial": 16777216, "interval": 5, "ceiling": 1099511627776},
                      "max_skips": 100})"}),
                    {0, 2, 3}, 3);
  }
}

TEST_CASE("fast sums are those of the whole batch but for rounding", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments =
      joined(kDigits, {"optimizer={\"name\": \"sgd\", \"lr\": 0.1}", "--limit-steps", "5"});
  must(run_ranks(directory, 0, in("whole", arguments)));
  const std::vector<double> whole = losses_of(directory / "whole");
  REQUIRE(whole.size() == 5);
  for (const int ranks : {2, 3, 4}) {
    must(run_ranks(directory, ranks, in(name_of(ranks), arguments)));
    const std::vector<double> losses = losses_of(directory / name_of(ranks));
    REQUIRE(losses.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(losses[i] == Approx(whole[i]).epsilon(1e-6));
    const tandem::safetensors::File divided(
        (newest_checkpoint(directory / name_of(ranks)) / "weights.safetensors").string());
    const tandem::safetensors::File undivided(
        (newest_checkpoint(directory / "whole") / "weights.safetensors").string());
    for (const auto& entry : undivided.entries()) {
      const auto wanted = undivided.read(entry).to_vector<double>();
      double difference = 0.0, norm = 0.0;
      std::size_t i = 0;
      for (const auto& other : divided.entries())
        if (other.name == entry.name)
          for (const double value : divided.read(other).to_vector<double>()) {
            difference += (value - wanted[i]) * (value - wanted[i]);
            norm += wanted[i] * wanted[i];
            ++i;
          }
      CHECK(i == wanted.size());
      CHECK(std::sqrt(difference) <= 1e-6 * std::sqrt(norm) + 1e-12);
    }
  }
}

// The same in one process, and of every loss: tests/train/parts_test.cpp.
TEST_CASE("ranks have the step of one batch, whatever their parts weigh", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  for (const UnevenRun& run : uneven_runs(directory)) {
    if (run.name != "class weights" && run.name != "pixels" && run.name != "anchors" && run.name != "tokens")
      continue;
    INFO(run.name);
    const std::string config = directory.write("config.json", run.config.dump());
    const auto trained = [&](const std::string& name, int ranks) {
      std::filesystem::remove_all(directory / name);
      must(run_ranks(directory, ranks,
                     in(name, {"train", config, "--limit-steps=1", "log_every=1", "precision=fp32",
                               "parallel.sync_batch_norm=true"})));
      return events_of(directory / name, "step").front();
    };
    const json whole = trained("whole", 0);
    for (const int ranks : {2, 4}) {
      const json parts = trained("parts", ranks);
      CHECK(parts["loss"].get<double>() == Approx(whole["loss"].get<double>()).epsilon(1e-6));
      CHECK(parts["grad_norm"].get<double>() == Approx(whole["grad_norm"].get<double>()).epsilon(2e-6));
      CHECK(distance(weights_of(directory / "parts"), weights_of(directory / "whole")) < 1e-6);
    }
  }
}

TEST_CASE("batches that leave ranks without samples, and shards that ranks share unevenly, are trained on",
          "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto trained = [&](const std::string& run, int ranks, const std::vector<std::string>& more) {
    must(run_ranks(
        directory, ranks,
        in(run,
           joined({"train", "digits_mlp", "epochs=2", "optimizer={\"name\": \"sgd\", \"lr\": 0.1}"}, more))));
    return losses_of(directory / run);
  };
  const auto check_close = [](const std::vector<double>& losses, const std::vector<double>& wanted) {
    REQUIRE(losses.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(losses[i] == Approx(wanted[i]).epsilon(1e-5));
  };
  // The last batch has one sample.
  const std::vector<std::string> uneven{"data.train_size=201", "data.batch_size=100"};
  const std::vector<double> whole = trained("whole", 0, uneven);
  check_close(trained("two", 2, uneven), whole);
  check_close(trained("four", 4, uneven), whole);
  check_close(trained("at_once", 4, joined(uneven, {"parallel.bucket_mb=0"})), whole);
  check_close(trained("more", 2, joined(uneven, {"parallel.shards=3"})), whole);
  check_close(trained("most", 3, joined(uneven, {"parallel.shards=4", "accumulate=2"})),
              trained("accumulated", 0, joined(uneven, {"accumulate=2"})));
  must(run_ranks(directory, 4,
                 {"train", "digits_mlp", "data.train_size=3", "data.batch_size=8", "--dry-run"}));
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

TEST_CASE("two gradients have one sum, whatever is added up when", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  must(run_ranks(directory, 2, in("at_once", joined(kResNet, {"parallel.bucket_mb=0"}))));
  must(run_ranks(directory, 2, in("buckets", joined(kResNet, {"parallel.bucket_mb=0.01"}))));
  CHECK(same_end(directory / "at_once", directory / "buckets"));
}

TEST_CASE("gradients are sent in 16 bits where that is asked for, and what it costs is told",
          "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto with = [&](const std::string& run, const std::string& wire) {
    must(run_ranks(directory, 2, in(run, joined(kResNet, {"precision=amp_fp16", "parallel.wire=" + wire}))));
    return losses_of(directory / run);
  };
  const std::vector<double> wide = with("wide", "fp32");
  for (const std::string wire : {"bf16", "fp16"}) {
    const std::vector<double> losses = with(wire, wire);
    REQUIRE(losses.size() == wide.size());
    CHECK(losses.front() == wide.front());
    CHECK(losses.back() != wide.back());
    CHECK(losses.back() == Approx(wide.back()).epsilon(0.02));
    CHECK_THAT(read_text(directory / wire / "log.txt"),
               Catch::Contains("gradients are sent in " + wire + ": the error of their sum is 0."));
  }
}

TEST_CASE("a batch size for each rank makes the step's so many times as large", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto with = [&](const char* batch) { return joined(kDigits, {batch}); };
  must(run_ranks(directory, 2, in("whole", with("data.batch_size=40"))));
  must(run_ranks(directory, 2, in("each", joined(with("data.batch_size=20"), {"parallel.per_rank=true"}))));
  CHECK(saved_tensors(directory / "whole", "weights") == saved_tensors(directory / "each", "weights"));
  // The configuration stays as it was given, so that it can be gone on with.
  const json config = json::parse(read_text(directory / "each/config.json"));
  CHECK(config["data"]["batch_size"] == 20);
  const Outcome longer = run_ranks(directory, 2, {"train", "each", "epochs=3", "-q"});
  CHECK(longer.exit_code == 0);
  const Outcome wider = run_ranks(directory, 3, {"train", "each", "epochs=4", "-q"});
  CHECK(wider.exit_code == 2);
  CHECK_THAT(wider.err, Catch::Contains("data.batch_size: 40 → 60"));
  CHECK_THAT(refused(run_ranks(directory, 0, in("alone", joined(kDigits, {"parallel.per_rank=true"})))),
             Catch::Contains("parallel.per_rank: needs several processes"));
}

TEST_CASE("ranks share the segments of the loss scale", "[program][ranks][segments]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(kDigits, {"parallel.reduction=reproducible", "parallel.shards=4",
                                          R"(precision={"level":"O1","dtype":"fp16","scaler":"segments"})"});
  must(run_ranks(directory, 2, in("begun", joined(arguments, {"--limit-steps=3"}))));
  // What another calibration might have found.
  const auto file = directory / "begun" / "calibration.json";
  json found = json::parse(read_text(file));
  REQUIRE(found["segments"].size() == 1);
  json body = found["segments"][0];
  body["border"] = "activation1";
  body["log2_scale"] = body["log2_scale"].get<int>() - 4;
  body["parameters"] = {"fc1.weight", "fc1.bias"};
  found["segments"][0]["parameters"] = {"fc2.weight", "fc2.bias"};
  found["segments"].push_back(body);
  std::ofstream(file) << found.dump();
  for (const int ranks : {0, 2, 3}) {
    std::filesystem::copy(directory / "begun", directory / name_of(ranks),
                          std::filesystem::copy_options::recursive);
    must(run_ranks(directory, ranks, {"train", name_of(ranks), "-q"}));
    CHECK(same_end(directory / name_of(ranks), directory / name_of(0)));
  }
}

TEST_CASE("a run goes on with any number of ranks, in the middle of a stream", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  write_text(directory);
  const auto arguments = joined(language(), {"parallel.reduction=reproducible", "parallel.shards=5"});
  must(run_ranks(directory, 0, in("whole", arguments)));
  must(run_ranks(directory, 2, in("parts", joined(arguments, {"--limit-steps", "7"}))));
  must(run_ranks(directory, 0, {"train", "parts", "--limit-steps", "12", "-q"}));
  must(run_ranks(directory, 3, {"train", "parts", "-q"}));
  CHECK(same_end(directory / "whole", directory / "parts"));
  CHECK_THAT(read_text(directory / "parts/log.txt"),
             Catch::Contains("changed: ranks: 2 → 1") && Catch::Contains("changed: ranks: 1 → 3"));
  CHECK(json::parse(read_text(directory / "parts/environment.json"))["ranks"].size() == 3);
}

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

TEST_CASE("ranks count alike where a batch leaves some of them without samples", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(
      {R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2, "bias": false},
                            {"type": "batch_norm"}, {"type": "relu"}, {"type": "flatten"},
                            {"type": "linear", "out_features": 10}]})"},
      {"epochs=1", "data.train_size=121", "data.batch_size=60", "parallel.shards=4",
       "parallel.reduction=reproducible"});
  for (const int ranks : {0, 2, 4})
    must(run_ranks(directory, ranks, in(name_of(ranks), joined({"train", "digits_mlp"}, arguments))));
  CHECK(same_end(directory / name_of(2), directory / name_of(0)));
  CHECK(same_end(directory / name_of(4), directory / name_of(0)));
}
