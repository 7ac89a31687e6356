// tandem report, and the files beside metrics.jsonl, of real runs.
#include <sys/wait.h>

#include <cstdlib>

#include "runs/tensorboard/record.h"
#include "tests/program/support.h"
#include "tests/support/paths.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

Outcome train(const TemporaryDirectory& directory, const std::string& run,
              const std::vector<std::string>& more = {}) {
  return tandem_in(directory, joined({"train", "digits_mlp", "run_dir=" + run, "-q"}, more));
}

// Output and exit code of a shell command.
std::pair<std::string, int> shell(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

std::vector<fs::path> event_files(const fs::path& run) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(run / "tensorboard")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Compares the event files with metrics.jsonl, by TensorBoard's own reader where there is one.
void check_with_tensorboard(const fs::path& run) {
  const char* python = std::getenv("TANDEM_TENSORBOARD_PYTHON");
  if (!python) {
    WARN("skipped: TANDEM_TENSORBOARD_PYTHON does not name a Python with the package tensorboard");
    return;
  }
  const auto [output, code] =
      shell(quoted(python) + " '" + tandem::test::source_path("tests/golden/tensorboard_check.py") + "' " +
            quoted(run));
  INFO(output);
  CHECK(code == 0);
  CHECK_THAT(output, Contains("as metrics.jsonl"));
}

void check_in_browser(const fs::path& page) {
  const auto [output, code] =
      shell("python3 '" + tandem::test::source_path("tests/report/screenshot") + "' " + quoted(page));
  if (code == 77) {
    WARN(output);
    return;
  }
  INFO(page.string() << "\n" << output);
  CHECK(code == 0);
  CHECK(line_count(output) == 4);
}

}  // namespace

TEST_CASE("a run leaves event files and a table that say what metrics.jsonl does", "[program][report]") {
  const TemporaryDirectory directory;
  const fs::path run = directory.path() / "run";
  REQUIRE(train(directory, "run", {"epochs=4", "precision=amp_fp16", "log_every=2"}).exit_code == 0);
  const auto files = event_files(run);
  REQUIRE(files.size() == 1);
  CHECK(tandem::tensorboard::payloads(read_text(files[0])).size() > 90);
  std::size_t steps = 0;
  for (const json& line : json_lines(run / "metrics.jsonl")) steps += line["event"] == "step" ? 1 : 0;
  const std::string table = read_text(run / "metrics.csv");
  CHECK_THAT(table,
             Catch::StartsWith("step,applied,epoch,loss,lr,loss_scale,skipped,grad_norm,items_per_s,test/"));
  CHECK(line_count(table) >= steps + 1);
  CHECK(line_count(table) <= steps + 1 + 4);
  check_with_tensorboard(run);

  REQUIRE(train(directory, "without", {"epochs=1", "tensorboard=false"}).exit_code == 0);
  CHECK_FALSE(fs::exists(directory.path() / "without/tensorboard"));
  REQUIRE(train(directory, "scalars", {"epochs=1", "tensorboard_histograms=false"}).exit_code == 0);
  CHECK(read_text(event_files(directory.path() / "scalars").at(0)).find("weights/") == std::string::npos);
}

TEST_CASE("a run that is gone on with begins a new event file, which replaces what it does again",
          "[program][report]") {
  const TemporaryDirectory directory;
  const fs::path run = directory.path() / "run";
  // Cut off within the second epoch, after the state of the first was saved: steps of the second are done
  // again.
  const Outcome cut = launch({.arguments = {"train", "digits_mlp", "run_dir=run", "epochs=100", "-q"},
                              .directory = directory.path().string(),
                              .watch = [&] {
                                std::error_code error;
                                const auto size = fs::file_size(run / "metrics.jsonl", error);
                                return !error && size > 200000 ? SIGKILL : 0;
                              }});
  REQUIRE(cut.exit_code == 128 + SIGKILL);
  CHECK_FALSE(fs::exists(run / "metrics.csv"));
  const Outcome report = tandem_in(directory, {"report", "run", "--csv"});  // of a run without an end
  INFO(report.err);
  CHECK(report.exit_code == 0);
  CHECK(fs::exists(run / "metrics.csv"));
  CHECK_THAT(read_text(run / "report.html"), Contains("not ended: running, or killed"));

  const std::size_t done = json_lines(run / "metrics.jsonl").size();
  REQUIRE(tandem_in(directory, {"train", "--resume", "run", "-q"}).exit_code == 0);
  CHECK(json_lines(run / "metrics.jsonl").size() > done);
  CHECK(event_files(run).size() == 2);
  check_with_tensorboard(run);
}

TEST_CASE("report: pages of one run and of several", "[program][report]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "a", {"epochs=3"}).exit_code == 0);
  REQUIRE(train(directory, "b <&> \"c\"",
                {"epochs=40",
                 "precision={\"level\":\"O1\",\"dtype\":\"fp16\",\"scaler\":{\"initial\":16777216,"
                 "\"interval\":100}}"})
              .exit_code == 0);
  REQUIRE(train(directory, "one", {"--limit-steps=1"}).exit_code == 0);
  CHECK(train(directory, "diverged", {"optimizer={\"name\":\"sgd\",\"lr\":1e6}"}).exit_code == 3);
  for (const std::string run : {"a", "b <&> \"c\"", "one", "diverged"}) {
    const Outcome outcome = tandem_in(directory, {"report", run});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out == "Report: " + run + "/report.html\n");
    check_in_browser(directory.path() / run / "report.html");
  }
  CHECK_THAT(read_text(directory.path() / "a/report.html"), Contains("weight gradients of step "));
  CHECK_THAT(read_text(directory.path() / "diverged/report.html"),
             Contains("badge diverged") && Contains("<p>Diverged: step "));
  const Outcome computed = tandem_in(directory, {"report", "a", "--gradients", "--out", "computed.html"});
  INFO(computed.err);
  REQUIRE(computed.exit_code == 0);
  CHECK_THAT(read_text(directory.path() / "computed.html"), Contains("activation gradients"));

  const Outcome several =
      tandem_in(directory, {"report", "a", "b <&> \"c\"", "one", "diverged", "--out", "all.html"});
  INFO(several.err);
  REQUIRE(several.exit_code == 0);
  CHECK_THAT(read_text(directory.path() / "all.html"), Contains("4 runs") && Contains("b &lt;&amp;&gt;"));
  check_in_browser(directory.path() / "all.html");

  const Outcome nowhere = tandem_in(directory, {"report", "a", "one"});
  CHECK(nowhere.exit_code == 2);
  CHECK_THAT(nowhere.err, Contains("give --out FILE.html"));
  const Outcome none = tandem_in(directory, {"report", "missing"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("missing: no such run directory"));
}

TEST_CASE("report: a run of an older version, without its weights, says what is missing",
          "[program][report]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "run", {"epochs=1", "tensorboard=false"}).exit_code == 0);
  const fs::path run = directory.path() / "run";
  std::string kept;
  for (const json& line : json_lines(run / "metrics.jsonl"))
    if (line["event"] != "gradients") kept += line.dump() + "\n";
  directory.write("run/metrics.jsonl", kept + "{\"event\": \"st");
  CHECK_THAT(tandem_in(directory, {"report", "run"}).err,
             Contains("metrics.jsonl is not what the run wrote"));
  fs::remove(run / "metrics.jsonl.sha256");
  const Outcome computed = tandem_in(directory, {"report", "run"});
  INFO(computed.err);
  REQUIRE(computed.exit_code == 0);
  CHECK_THAT(computed.err,
             Contains("The last line of metrics.jsonl is incomplete") && !Contains("not what the run wrote"));
  CHECK_THAT(read_text(run / "report.html"), Contains("weights, in FP32"));
  fs::remove_all(run / "checkpoints");
  REQUIRE(tandem_in(directory, {"report", "run"}).exit_code == 0);
  CHECK_THAT(read_text(run / "report.html"), Contains("They cannot be computed either: "));
}
