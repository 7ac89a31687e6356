// Output that cannot be written: full disks, closed files, broken pipes, limits.
#include <csignal>

#include "tests/program/support.h"
#include "tests/support/paths.h"

using namespace tandem::testing;
using Catch::Contains;

namespace {

using Arguments = std::vector<std::string>;

const std::string kTrouble = "the result cannot be written to stdout";

// A digit as NumPy writes it.
void write_digit(const std::string& path) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (8, 8), }";
  header += std::string(127 - 10 - header.size(), ' ') + "\n";
  std::ofstream(path, std::ios::binary)
      << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
      << std::string(64, '\x07');
}

// Every command with something to say, to be called where `run` is a run.
std::vector<Arguments> commands() {
  return {{"--help"},
          {"train", "--help"},
          {"--version"},
          {"ls", "ops"},
          {"ls", "keys"},
          {"env"},
          {"show", "digits_mlp"},
          {"validate", "digits_mlp"},
          {"summary", "digits_mlp"},
          {"cp", "digits_mlp", "mine.json", "--force"},
          {"eval", "run"},
          {"eval", "run", "--json"},
          {"predict", "run", "digit.npy"},
          {"inspect", "run"},
          {"report", "run"},
          {"export", "run", "--format", "npz"},
          {"bench", "digits_mlp", "--steps", "2", "--warmup", "1"},
          {"train", "digits_mlp", "--dry-run"},
          {"train", "digits_mlp", "epochs=1", "--quiet"},
          {"demo", "skip", "--small"},
          {"compare", "digits_mlp", "epochs=1", "--no-speed",
           R"(compare={"arms": ["fp32", "fp32_null"], "margin": 2, "seeds": 2, "speed_rounds": 1})"}};
}

std::size_t occurrences(const std::string& text, const std::string& of) {
  std::size_t count = 0;
  for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
  return count;
}

void make_run(const TemporaryDirectory& directory) {
  REQUIRE(tandem_in(directory, {"train", "digits_mlp", "run_dir=run", "epochs=1"}).exit_code == 0);
  write_digit((directory.path() / "digit.npy").string());
}

}  // namespace

TEST_CASE("a result that cannot be written is a failure of every command", "[program][output]") {
  const TemporaryDirectory directory;
  make_run(directory);
  for (const Arguments& arguments : commands()) {
    INFO(arguments[0] << " " << arguments.back());
    for (const auto& [sink, reason] :
         {std::pair{Sink::full_disk, "No space left on device"}, {Sink::closed, "Bad file descriptor"}}) {
      const Outcome outcome =
          launch({.arguments = arguments, .directory = directory.path().string(), .out = sink});
      INFO(outcome.err);
      CHECK(outcome.exit_code == 1);
      CHECK(occurrences(outcome.err, kTrouble + ": " + reason + "\n") == 1);
    }
    // Whoever reads the first lines only has read what he wanted.
    const Outcome unread =
        launch({.arguments = arguments, .directory = directory.path().string(), .out = Sink::unread});
    INFO(unread.err);
    CHECK(unread.exit_code == 0);
    CHECK(unread.err.find("cannot be written") == std::string::npos);
  }
}

TEST_CASE("everything is said in one place", "[program][output]") {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(tandem::test::source_path("train"))) {
    if (!entry.is_regular_file() || entry.path().filename() == "output.cpp") continue;
    INFO(entry.path());
    const std::string text = read_text(entry.path());
    for (const char* call : {"fmt::print(", "std::cout", "std::cerr", "std::printf(", "std::puts("})
      CHECK(text.find(call) == std::string::npos);
  }
}

TEST_CASE("remarks that cannot be written change nothing", "[program][output]") {
  const TemporaryDirectory directory;
  make_run(directory);
  for (const Sink sink : {Sink::full_disk, Sink::closed, Sink::unread}) {
    INFO("sink " << static_cast<int>(sink));
    const auto code = [&](const Arguments& arguments) {
      return launch({.arguments = arguments, .directory = directory.path().string(), .err = sink}).exit_code;
    };
    for (const Arguments& arguments : commands()) {
      INFO(arguments[0] << " " << arguments.back());
      CHECK(code(arguments) == 0);
    }
    CHECK(code({"validate", "nope"}) == 2);
    CHECK(code({"trian"}) == 2);
    CHECK(code({"train", "digits_mlp", "sed=1"}) == 2);
    CHECK(code({"train", "digits_mlp", "run_dir=diverged", R"(optimizer={"name": "sgd", "lr": 1e6})"}) == 3);
  }
}

TEST_CASE("a run that cannot say anything trains on", "[program][output]") {
  const TemporaryDirectory directory;
  for (const Sink sink : {Sink::full_disk, Sink::closed, Sink::unread}) {
    const std::string name = "run" + std::to_string(static_cast<int>(sink));
    INFO(name);
    const Outcome outcome = launch({.arguments = {"train", "digits_mlp", "run_dir=" + name, "epochs=3"},
                                    .directory = directory.path().string(),
                                    .out = sink,
                                    .err = sink});
    CHECK(outcome.exit_code == (sink == Sink::unread ? 0 : 1));
    const auto run = directory.path() / name;
    CHECK(end_of(run)["status"] == "completed");
    // No file of the run was taken for one that was closed.
    CHECK(tandem_in(directory, {"eval", name}).exit_code == 0);
    CHECK_THAT(read_text(run / "config.json"), Catch::StartsWith("{") && Catch::EndsWith("}\n"));
    for (const auto& line : json_lines(run / "metrics.jsonl")) CHECK(line.contains("event"));
  }
}

TEST_CASE("an interrupted run is saved though it cannot say so", "[program][output]") {
  const TemporaryDirectory directory;
  const auto metrics = directory.path() / "run/metrics.jsonl";
  bool sent = false;
  const Outcome outcome =
      launch({.arguments = {"train", "digits_mlp", "run_dir=run", "epochs=100000"},
              .directory = directory.path().string(),
              .watch =
                  [&] {
                    std::error_code error;
                    if (sent || std::filesystem::file_size(metrics, error) < 2000 || error) return 0;
                    sent = true;
                    return SIGTERM;
                  },
              .out = Sink::full_disk,
              .err = Sink::full_disk});
  CHECK(outcome.exit_code == 75);
  CHECK(end_of(directory.path() / "run")["status"] == "interrupted");
  CHECK_FALSE(read_text(directory.path() / "run/checkpoints/latest").empty());
}
