#include "studies/compare/runner.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/exit_codes.h"
#include "core/units.h"
#include "files/input.h"
#include "files/json_fields.h"
#include "files/json_text.h"
#include "files/write.h"
#include "runs/run_record.h"
#include "studies/compare/process.h"

namespace tandem::compare {

namespace fs = std::filesystem;

namespace {

using config::Json;
using files::boolean_in;
using files::number_in;
using files::text_in;

constexpr const char* kResultFile = "result.json";

// Not a value (discarded) if the file is missing or not JSON.
Json read_json(const fs::path& path) {
  return Json::parse(files::read_text_if_there(path).value_or(""), nullptr, false);
}

// The events of a run; none if it has written none.
runs::RunRecord events_of(const fs::path& run) {
  runs::RunRecord record;
  const fs::path file = run / "metrics.jsonl";
  if (const std::string text = files::read_text_if_there(file).value_or(""); !text.empty())
    runs::read_metrics(record, text, file.string());
  return record;
}

void move_aside(const fs::path& directory) {
  fs::path to;
  for (int copy = 1; to.empty() || fs::exists(to); ++copy)
    to = fmt::format("{}-old{}", directory.string(), copy == 1 ? "" : fmt::format("-{}", copy));
  fs::rename(directory, to);
}

class ArmRun {
 public:
  ArmRun(const Experiment& experiment, const Arm& arm, std::int64_t seed, const train::StopRequest& stop)
      : experiment_(experiment),
        arm_(arm),
        seed_(seed),
        stop_(stop),
        directory_(experiment.run_directory(arm, seed)),
        arguments_(experiment.arguments(arm, seed)) {}

  // Whether the run and its evaluations are finished.
  bool done() const { return same_configuration() && read_json(directory_ / kResultFile).is_object(); }

  SeedResult result() {
    const Json found = done() ? read_json(directory_ / kResultFile) : run();
    const runs::RunRecord events = events_of(directory_);
    SeedResult result;
    result.seed = seed_;
    result.diverged = boolean_in(found, "diverged");
    result.failure = text_in(found, "failure");
    result.value = value_in(found, "metrics");
    result.own = value_in(found, "metrics_in_precision");
    if (events.end) {
      result.steps = events.end->steps;
      result.applied = events.end->applied;
      result.skipped = events.end->skipped;
    }
    result.train_s = events.wall_s;
    result.peak_memory_bytes = events.peak_memory_bytes;
    return result;
  }

 private:
  bool same_configuration() const {
    const Json saved = read_json(directory_ / "config.json");
    return saved.is_object() &&
           saved == config::resolved(config::load(experiment_.config, arguments_).config);
  }

  std::optional<double> value_in(const Json& found, const char* field) const {
    const auto metrics = found.find(field);
    if (metrics == found.end() || !metrics->is_object()) return {};
    const double value = number_in(*metrics, experiment_.metric.c_str());
    if (std::isnan(value)) return {};
    return (experiment_.percent ? 100.0 : 1.0) * value;
  }

  Json run() {
    if (fs::exists(directory_) && !same_configuration()) move_aside(directory_);
    if (events_of(directory_).status() != "completed") {
      const Exit exit = train();
      if (exit.code != 0) return save(divergence(exit));
    }
    const auto steps = events_of(directory_).steps;
    const bool diverged = !steps.empty() && !std::isfinite(steps.back().loss);
    Json result{{"diverged", diverged}, {"metrics", evaluate({"precision=fp32"})}};
    result["metrics_in_precision"] =
        arm_.precision == "fp32" ? result["metrics"] : evaluate({"--in-precision"});
    return save(result);
  }

  Exit train() {
    std::vector<std::string> words{"train"};
    if (fs::exists(directory_ / "config.json")) {
      words.push_back(directory_.string());
    } else {
      if (fs::exists(directory_)) move_aside(directory_);
      words.push_back(experiment_.config);
      words.insert(words.end(), arguments_.begin(), arguments_.end());
    }
    words.emplace_back("--quiet");
    return checked(run_program(words, stop_));
  }

  // Evaluates the last weights.
  Json evaluate(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"eval",  directory_.string(), "--weights", "last", "--split", "test",
                                   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Exit exit = checked(run_program(words, stop_));
    const Json result = Json::parse(exit.out, nullptr, false);
    if (exit.code != 0 || !result.is_object()) fail(exit);
    return result["metrics"];
  }

  // Throws if the comparison cannot continue.
  Exit checked(Exit exit) const {
    if (exit.code != 0 && stop_.asked()) throw Interrupted();
    std::string words = exit.last_line();
    if (words.starts_with("tandem: ")) words = words.substr(8);
    require(exit.code != kExitUsage, "", "{}", words);
    return exit;
  }

  // A run that stopped itself prints its directory; other failures are not due to the arm.
  Json divergence(const Exit& exit) const {
    const std::size_t end = exit.err.find("\nRun directory: ");
    const std::string status = events_of(directory_).status();
    const bool of_the_arm = (exit.code == kExitFailure && status == "failed") ||
                            (exit.code == kExitDiverged && status == "diverged");
    if (!of_the_arm || end == std::string::npos) fail(exit);
    std::string what = exit.err.substr(0, end);
    if (const std::size_t line = what.rfind('\n'); line != std::string::npos) what = what.substr(line + 1);
    if (what.starts_with("tandem: ")) what = what.substr(8);
    return {{"diverged", true}, {"failure", what}};
  }

  [[noreturn]] void fail(const Exit& exit) const {
    throw VendorError("", fmt::format("{} with seed {} ended with code {}: {} (see {})", arm_.name, seed_,
                                      exit.code, exit.last_line(), (directory_ / "log.txt").string()));
  }

  Json save(const Json& result) const {
    files::write_atomically(directory_ / kResultFile, files::json_text(result, 2) + "\n");
    return result;
  }

  const Experiment& experiment_;
  const Arm& arm_;
  std::int64_t seed_;
  const train::StopRequest& stop_;
  fs::path directory_;
  std::vector<std::string> arguments_;
};

std::string summary(const Experiment& experiment, const SeedResult& result) {
  const std::string value = result.value
                                ? fmt::format("{} {:.{}f}{}", experiment.metric, *result.value,
                                              experiment.percent ? 2 : 4, experiment.percent ? " %" : "")
                                : "";
  if (!result.diverged) return value;
  return "diverged" + (value.empty() ? "" : ", " + value) +
         (result.failure.empty() ? "" : ": " + result.failure);
}

}  // namespace

std::vector<std::vector<SeedResult>> run_arms(const Experiment& experiment, const train::StopRequest& stop,
                                              const std::function<void(const std::string&)>& say) {
  std::vector<std::vector<SeedResult>> results(experiment.arms.size());
  const std::size_t total = experiment.arms.size() * experiment.seeds.size();
  std::size_t number = 0, kept = 0;
  for (const std::int64_t seed : experiment.seeds) {
    for (std::size_t i = 0; i < experiment.arms.size(); ++i) {
      if (stop.asked()) throw Interrupted();
      ArmRun run(experiment, experiment.arms[i], seed, stop);
      const bool done = run.done();
      const auto started = std::chrono::steady_clock::now();
      results[i].push_back(run.result());
      ++number;
      kept += done ? 1 : 0;
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      if (!done)
        say(fmt::format("[{}/{}] {} seed {}: {}, {}", number, total, experiment.arms[i].name, seed,
                        summary(experiment, results[i].back()), duration_text(seconds)));
    }
  }
  if (kept > 0) say(fmt::format("{} of {} runs were finished already", kept, total));
  return results;
}

}  // namespace tandem::compare
