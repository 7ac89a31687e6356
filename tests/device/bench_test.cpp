// Tables of algorithms that `tandem bench` reads and writes.
#include <filesystem>

#include "core/algorithms.h"
#include "tests/program/support.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

bool on_gpu() { return test::test_device().type == DeviceType::cuda; }

std::vector<std::string> bench(const std::vector<std::string>& settings, const std::string& device = "cuda") {
  return joined({"bench", "resnet20_synthetic", "--steps", "1", "--warmup", "1", "--json",
                 "data.batch_size=4", "data.image_size=8", "device=" + device,
                 R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "bias": false},
                             {"type": "batch_norm"}, {"type": "relu"},
                             {"type": "conv2d", "out_channels": 16, "kernel": 1, "bias": false},
                             {"type": "flatten"}, {"type": "linear", "out_features": 10}]})"},
                settings);
}

// The table of a benchmark in `directory`, left in "table.txt".
AlgorithmTable table_of(const TemporaryDirectory& directory) {
  return read_algorithms(read_text(directory / "table.txt"));
}

}  // namespace

TEST_CASE("bench leaves what it chose, and begins with what it finds", "[device][program][algorithms]") {
  if (!on_gpu()) return;
  const TemporaryDirectory directory;
  const std::vector<std::string> with_table = bench({"precision=amp_bf16", "--algorithms", "table.txt"});
  const Outcome first = tandem_in(directory, with_table);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const AlgorithmTable table = table_of(directory);
  CHECK(table.choices.size() > 2);
  const auto json = nlohmann::json::parse(first.out)["algorithms"];
  REQUIRE(json.size() == table.choices.size());
  for (const auto& each : json) {
    const auto& choice = table.choices.at(each["what"].get<std::string>());
    CHECK(each["choice"] == choice.name);
    CHECK(each["ms"].size() == choice.milliseconds.size());
  }
  // Times are those that were read, to the digit.
  const std::string text = read_text(directory / "table.txt");
  const Outcome second = tandem_in(directory, with_table);
  REQUIRE(second.exit_code == 0);
  CHECK(second.err.empty());
  CHECK(read_text(directory / "table.txt") == text);
  // Another precision adds to it.
  REQUIRE(tandem_in(directory, bench({"precision=fp32", "--algorithms", "table.txt"})).exit_code == 0);
  const AlgorithmTable both = table_of(directory);
  CHECK(both.choices.size() > table.choices.size());
  for (const auto& [what, choice] : table.choices) CHECK(both.choices.at(what) == choice);
}

TEST_CASE("a table of another device or library is told, left alone, and nothing is lost",
          "[device][program][algorithms]") {
  if (!on_gpu()) return;
  const TemporaryDirectory directory;
  const std::string text = "plans chosen by cuDNN 1.2.3 on NVIDIA X, 7 multiprocessors\nwhat\tname\n";
  directory.write("table.txt", text);
  const Outcome outcome = tandem_in(directory, bench({"--algorithms", "table.txt"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Contains("table.txt: algorithms of cuDNN 1.2.3 on NVIDIA X, 7 multiprocessors, and "
                                   "this is") &&
                              Contains("the file stays unchanged"));
  CHECK(read_text(directory / "table.txt") == text);
  CHECK(nlohmann::json::parse(outcome.out).contains("step_ms"));
  directory.write("table.txt", "{}\n");
  const Outcome broken = tandem_in(directory, bench({"--algorithms", "table.txt"}));
  CHECK(broken.exit_code == 2);
  CHECK_THAT(broken.err, Contains("table.txt: [algorithms] the table must start with"));
}

TEST_CASE("tables are neither read nor written without timing", "[device][program][algorithms]") {
  const TemporaryDirectory directory;
  std::vector<std::vector<std::string>> untimed{bench({"--algorithms", "table.txt"}, "cpu")};
  if (on_gpu()) untimed.push_back(bench({"--algorithms", "table.txt", "deterministic=true"}));
  for (const auto& arguments : untimed) {
    const Outcome outcome = tandem_in(directory, arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK_THAT(outcome.err, Contains("table.txt: neither read nor written"));
    CHECK_FALSE(std::filesystem::exists(directory / "table.txt"));
  }
}

TEST_CASE("the repository's table of the GPU is found, and others are told of",
          "[device][program][algorithms]") {
  if (!on_gpu()) return;
  const TemporaryDirectory directory;
  // A tree with the program in build/release.
  const auto program = directory / "tree/build/release/tandem";
  std::filesystem::create_directories(program.parent_path());
  std::filesystem::copy_file(test::program_path(), program);
  const auto folder = directory / "tree/tests/gpu/algorithms";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(directory / "tree/configs");
  std::filesystem::copy_file(test::source_path("configs/fashion_demo.json"),
                             directory / "tree/configs/fashion_demo.json");
  const auto run = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = bench(settings);
    arguments[1] = test::source_path("configs/resnet20_synthetic.json");
    const std::string path = program.string();
    const Outcome outcome =
        launch({.arguments = arguments, .directory = directory.path().string(), .program = path.c_str()});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  const Outcome none = run({"--algorithms", "table.txt"});
  const AlgorithmTable table = table_of(directory);
  CHECK_THAT(none.err, Contains("has no " + file_name_of(table) + ": algorithms are timed now"));
  directory.write("tree/tests/gpu/algorithms/" + file_prefix_of(table) + "0.9.txt", "");
  CHECK_THAT(run({}).err, Contains("(it has " + file_prefix_of(table) + "0.9.txt)"));
  directory.write("tree/tests/gpu/algorithms/" + file_name_of(table), read_text(directory / "table.txt"));
  const Outcome known = run({});
  CHECK(known.err.empty());
  const auto json = nlohmann::json::parse(known.out)["algorithms"];
  REQUIRE(json.size() == table.choices.size());
  std::filesystem::remove(directory / "table.txt");
  CHECK(run({"--algorithms", "table.txt"}).err.empty());
  CHECK(table_of(directory) == table);
}

TEST_CASE("bench replays recordings of every family that can be recorded, and says why of others",
          "[device][program][recording]") {
  if (!on_gpu()) return;
  const TemporaryDirectory directory;
  const auto measured = [&](const std::string& config, const std::string& setting) {
    const Outcome outcome = tandem_in(directory, {"bench", config, "--steps", "1", "--warmup", "5", "--json",
                                                  "device=cuda", "precision=amp_bf16", "data.batch_size=2",
                                                  "model.units=8", "model.embedding=8", setting});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out);
  };
  const auto language = measured("debian_lstm", "data.vocabulary=50");
  CHECK(language["recorded"] == true);
  CHECK(language["why_not_recorded"] == "");
  const auto translation = measured("translate_de", "data.max_length=5");
  CHECK(translation["recorded"] == false);
  CHECK_THAT(translation["why_not_recorded"].get<std::string>(), Contains("pageable host memory"));
}
