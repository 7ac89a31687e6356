// `tandem compare` on the digits that come with Tandem.
#include <csignal>
#include <regex>
#include <set>

#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string kTwoArms = R"(compare={"arms": ["fp32", "fp32_null"], "margin": 2, "speed_rounds": 1})";

std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more = {}) {
  return joined({"compare", "digits_mlp", kTwoArms, "--out", out}, more);
}

json report(const TemporaryDirectory& directory, const std::string& out) {
  return json::parse(read_text(directory.path() / out / "compare.json"));
}

std::set<std::string> names_in(const std::filesystem::path& path) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.insert(entry.path().filename());
  return names;
}

// Whatever a run wrote while it trained.
std::string trace(const TemporaryDirectory& directory, const std::string& out) {
  std::string text;
  for (const char* arm : {"fp32", "fp32_null"})
    for (int seed = 1; seed <= 5; ++seed)
      text += read_text(directory.path() / out / "arms" / arm / ("seed-" + std::to_string(seed)) /
                        "metrics.jsonl");
  return text;
}

// A table without what aligns its columns.
std::string unaligned(const std::string& table) {
  return std::regex_replace(std::regex_replace(table, std::regex(" +"), " "), std::regex("-+"), "-");
}

}  // namespace

TEST_CASE("a comparison pairs its arms by seed, and is not made twice", "[program][compare]") {
  const TemporaryDirectory directory;
  const Outcome first = tandem_in(directory, command("out", {"epochs=2"}));
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(unaligned(first.out),
             Catch::StartsWith("| arm | accuracy mean ± sd (n) | Δ | 90 % CI | margin | verdict | "
                               "diverged | skipped | speed [p10–p90] | peak MB |\n"));
  CHECK(line_count(first.err) == 11);  // ten runs, and the speed of fp32 against itself
  for (const char* text : {"Margin: ± 2 percentage points", "Null arm:", "Detectable margin:", "A/A"})
    CHECK_THAT(first.out, Contains(text));
  CHECK(names_in(directory.path() / "out") ==
        std::set<std::string>{"arms", "compare.json", "seeds.csv", "speed.csv", "table.md"});
  CHECK(unaligned(first.out).starts_with(unaligned(read_text(directory.path() / "out/table.md"))));
  CHECK(line_count(read_text(directory.path() / "out/seeds.csv")) == 11);
  CHECK(line_count(read_text(directory.path() / "out/speed.csv")) == 9);

  const auto found = nlohmann::ordered_json::parse(read_text(directory.path() / "out/compare.json"));
  CHECK(found["metric"] == "accuracy");
  CHECK(found["margin"] == 2.0);
  REQUIRE(found["rows"].size() == 2);
  for (const auto& row : found["rows"]) {
    std::vector<std::string> fields;
    for (const auto& [key, value] : row.items()) fields.push_back(key);
    CHECK(fields == std::vector<std::string>{"arm", "precision", "n", "mean", "sd", "values", "delta", "ci90",
                                             "verdict", "diverged", "skipped", "speedup", "peak_memory_bytes",
                                             "memory"});
    CHECK(row["values"].size() == 5);
    CHECK(row["mean"] > 80.0);
    CHECK(row["peak_memory_bytes"] > 0);
  }
  CHECK(found["rows"][0]["speedup"]["median"] > 0.0);
  CHECK(found["rows"][0]["memory"]["optimizer"] > 0);
  CHECK(found["rows"][1]["verdict"].get<std::string>().starts_with("equivalent"));

  // The runs are ordinary ones, and the null arm starts elsewhere, if only by an ulp.
  const auto run = directory.path() / "out/arms/fp32/seed-3";
  CHECK(tandem_in(directory, {"eval", run.string()}).exit_code == 0);
  CHECK(json::parse(read_text(run / "config.json"))["seed"] == 3);
  const auto loss_of = [&](const std::string& arm) {
    return json::parse(
        read_text(directory.path() / "out/arms" / arm / "seed-3/result.json"))["metrics"]["loss"];
  };
  CHECK(loss_of("fp32") != loss_of("fp32_null"));

  const std::string before = trace(directory, "out");
  const Outcome second = tandem_in(directory, command("out", {"epochs=2", "--require", "equivalent"}));
  CHECK(second.exit_code == 0);
  CHECK(second.err == "10 of 10 runs were finished already\n");
  CHECK(second.out == first.out);
  CHECK(trace(directory, "out") == before);

  // Another configuration does not overwrite what is there.
  const Outcome other = tandem_in(directory, command("out", {"epochs=1", "--no-speed"}));
  CHECK(other.exit_code == 0);
  CHECK(names_in(directory.path() / "out/arms/fp32").count("seed-1-old") == 1);
  CHECK(line_count(read_text(directory.path() / "out/speed.csv")) == 1);
}

TEST_CASE("an interrupted comparison goes on to the same table", "[program][compare]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings{"epochs=40", "--no-speed"};
  REQUIRE(tandem_in(directory, command("whole", settings)).exit_code == 0);
  const auto metrics = directory.path() / "cut/arms/fp32_null/seed-2/metrics.jsonl";
  bool sent = false;
  const Outcome cut =
      launch({.arguments = command("cut", settings), .directory = directory.path().string(), .watch = [&] {
                std::error_code error;
                if (sent || std::filesystem::file_size(metrics, error) < 20000 || error) return 0;
                sent = true;
                return SIGINT;
              }});
  INFO(cut.err);
  REQUIRE(cut.exit_code == 75);
  CHECK_THAT(cut.out, Contains("Resume with the same command: tandem compare digits_mlp"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "cut/compare.json"));
  CHECK(json_lines(metrics).back()["status"] == "interrupted");
  const Outcome rest = tandem_in(directory, command("cut", settings));
  REQUIRE(rest.exit_code == 0);
  CHECK_THAT(rest.err, Contains("3 of 10 runs were finished already"));
  CHECK(report(directory, "cut")["rows"][1]["values"] == report(directory, "whole")["rows"][1]["values"]);
  CHECK(names_in(directory.path() / "cut/arms/fp32_null").size() == 5);
}

TEST_CASE("all precisions train the digits equally well", "[program][compare]") {
  const TemporaryDirectory directory;
  const Outcome outcome = tandem_in(directory, {"compare", "digits_mlp", "epochs=8", "compare.margin=2",
                                                "--no-speed", "--require", "equivalent"});
  INFO(outcome.err);
  INFO(outcome.out);
  CHECK(outcome.exit_code == 0);
  const json found = report(directory, "runs/digits_mlp-compare");
  std::vector<std::string> arms;
  for (const json& row : found["rows"]) {
    arms.push_back(row["arm"]);
    CHECK(row["mean"] > 90.0);
    CHECK(row["diverged"] == 0);
  }
  CHECK(arms == std::vector<std::string>{"fp32", "fp32_null", "amp_fp16", "amp_bf16"});
  CHECK_THAT(outcome.out, Contains("own precision"));
}

TEST_CASE("the largest batch that fits is larger in 16 bits", "[program][compare]") {
  const TemporaryDirectory directory;
  const Outcome outcome = tandem_in(
      directory, {"compare", "digits_lenet", R"(compare={"arms": ["fp32", "amp_bf16"], "seeds": 1})",
                  "epochs=1", "schedule=constant", "--no-speed", "--largest-batch", "64MiB", "--out", "out"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("Largest batch whose training step fits in 0.07 GB"));
  const json rows = report(directory, "out")["rows"];
  for (const json& row : rows) {
    CHECK(row["largest_batch"]["memory_bytes"] == 64 << 20);
    CHECK(row["largest_batch"]["peak_memory_bytes"].get<std::int64_t>() <= 64 << 20);
    CHECK(row["largest_batch"]["peak_memory_bytes"].get<std::int64_t>() > 32 << 20);
  }
  CHECK(rows[1]["largest_batch"]["batch"].get<int>() > rows[0]["largest_batch"]["batch"].get<int>());
  const Outcome refused =
      tandem_in(directory, {"compare", "digits_lenet", "--largest-batch", "much", "--out", "none"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("not a memory size") && Contains("GiB"));
}

TEST_CASE("a diverged seed is shown and counted", "[program][compare]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tandem_in(directory, command("out", {"optimizer={\"name\": \"sgd\", \"lr\": 1e6}", "compare.seeds=2",
                                           "--no-speed", "--require", "equivalent"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Contains("fp32_null diverged with seed 2: step "));
  const json row = report(directory, "out")["rows"][1];
  CHECK(row["diverged"] == 2);
  CHECK(row["n"] == 0);
  CHECK(row["values"] == json::array({nullptr, nullptr}));
  CHECK(row["verdict"] == "inconclusive");
  CHECK(tandem_in(directory, command("out", {"optimizer={\"name\": \"sgd\", \"lr\": 1e6}", "compare.seeds=2",
                                             "--no-speed"}))
            .err == "4 of 4 runs were finished already\n");
}

TEST_CASE("a bad arm is refused before anything is made", "[program][compare]") {
  const TemporaryDirectory directory;
  const auto check = [&](const std::string& arms, const std::string& text) {
    CHECK_THAT(refused(tandem_in(directory, {"compare", "fashion_mlp", "data.path=/no/such/folder",
                                             "compare.arms=" + arms, "--out", "out"})),
               Contains(text));
  };
  check(R"(["fp32", "amp_fq16"])", "compare.arms.1: no precision is named \"amp_fq16\"; did you mean");
  check(R"(["fp32", {"precision": "amp_fp16", "scalar": "none"}])",
        "compare.arms.1.scalar: unknown key; did you mean scaler?");
  check(R"(["fp32", "fp32"])", "compare.arms.1: two arms have the name fp32");
  check(R"(["amp_bf16"])", "the baseline, is missing");
  check(R"(["fp32", 3])", "expected the name of a precision or an object");
  check(R"(["fp32", {"name": "../up", "precision": "fp32"}])", "is not a folder name");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "out"));
  CHECK(tandem_in(directory, {"compare", "digits_mlp", "--require", "better"}).exit_code == 2);
  CHECK(tandem_in(directory, {"compare", "digits_mlp", "compare.seeds=0"}).exit_code == 2);
}
