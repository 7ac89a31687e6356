#include "tests/program/project.h"

#include <fmt/core.h>

#include <csignal>

namespace tandem::testing {

Project::Project(nlohmann::json config, const nlohmann::json& patch, const char* program)
    : program_(program) {
  config.merge_patch(patch);
  directory_.write("config.json", config.dump());
}

Outcome Project::run(std::vector<std::string> arguments, const Watch& watch,
                     const Environment& environment) const {
  return launch({.arguments = std::move(arguments),
                 .directory = directory_.path().string(),
                 .environment = environment,
                 .watch = watch,
                 .program = program_});
}

Outcome Project::train(const std::string& name, const std::vector<std::string>& more, const Watch& watch,
                       const Environment& environment) const {
  return run(joined({"train", "config.json", "run_dir=" + name, "-q"}, more), watch, environment);
}

Outcome Project::must(const std::vector<std::string>& arguments) const {
  INFO(arguments[0] << " " << arguments[1]);
  return testing::must(run(arguments));
}

void Project::must_train(const std::string& name, const std::vector<std::string>& more) const {
  testing::must(train(name, more));
}

std::string Project::refused(const std::vector<std::string>& arguments) const {
  return testing::refused(run(arguments));
}

std::string Project::refused_to_train(const std::vector<std::string>& changes) const {
  const std::string error = testing::refused(train("refused", changes));
  CHECK_FALSE(std::filesystem::exists(*this / "refused"));
  return error;
}

void Project::check_goes_on(const std::string& suffix, const std::vector<std::string>& settings,
                            int steps) const {
  const std::string whole = "whole" + suffix, parts = "parts" + suffix;
  must_train(whole, settings);
  must_train(parts, joined(settings, {"--limit-steps", std::to_string(steps)}));
  CHECK_FALSE(same_end(whole, parts));
  must({"train", "--resume", parts, "-q"});
  CHECK(same_end(whole, parts));
}

int Project::train_killed(const std::string& name, const std::vector<std::string>& settings,
                          std::uintmax_t first, std::uintmax_t every) const {
  Outcome outcome = train(name, settings, killing(*this / name, first));
  int kills = 0;
  for (std::uintmax_t bytes = every; outcome.exit_code == 128 + SIGKILL; bytes += every, ++kills)
    outcome = run({"train", "--resume", name, "-q"}, killing(*this / name, bytes));
  INFO(outcome.err);
  // The last signal may come when all is done.
  if (outcome.exit_code != 0) REQUIRE_THAT(outcome.err, Catch::Contains("has completed"));
  return kills;
}

void Project::check_retries() const {
  must_train(
      "retried",
      {"precision=amp_fp16", "precision.on_skip=retry",
       R"(precision.scaler={"initial": 1073741824, "ceiling": 1073741824, "backoff": 0.00048828125})"});
  const auto steps = events("retried", "step");
  REQUIRE(steps.back()["skipped"].get<int>() > 0);
  const double scale = steps.front()["loss_scale"];
  for (const auto& step : steps) REQUIRE(step["loss_scale"] == scale);
  must_train("plain", {"precision=amp_fp16", fmt::format(R"(precision.scaler={{"static": {}}})", scale)});
  const bool same = saved_tensors(*this / "retried", "weights") == saved_tensors(*this / "plain", "weights");
  CHECK(same);
}

void Project::check_commands(const std::vector<std::vector<std::string>>& besides) const {
  std::vector<std::vector<std::string>> commands = {
      {"validate", "config.json"},
      {"show", "config.json"},
      {"summary", "config.json"},
      {"train", "config.json", "--dry-run"},
      {"eval", "run"},
      {"eval", "run", "--json"},
      {"inspect", "run"},
      {"inspect", "config.json", "--casts"},
      {"inspect", "run", "--gradients"},
      {"bench", "config.json", "--steps", "3", "--profile"},
      {"report", "run"},
      {"report", "run", "--csv"},
      {"export", "run", "--format", "safetensors"},
      {"export", "run", "--format", "npz"},
      {"compare", "config.json", "compare.seeds=2", "epochs=1", "--no-speed", "--out", "compared"}};
  commands.insert(commands.end(), besides.begin(), besides.end());
  for (const auto& command : commands) must(command);
}

Project::Watch killing(const std::filesystem::path& run, std::uintmax_t bytes) {
  return [run, bytes] {
    std::error_code error;
    const auto size = std::filesystem::file_size(run / "metrics.jsonl", error);
    return !error && size > bytes ? SIGKILL : 0;
  };
}

}  // namespace tandem::testing
