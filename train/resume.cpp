#include "train/resume.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/config/load.h"

namespace tandem::train {

namespace fs = std::filesystem;

namespace {

// The status of the last end event; "" when there is none.
std::string last_status(const RunDirectory& run) {
  std::ifstream file(run.metrics());
  std::string status;
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "end") status = event.value("status", "");
  }
  return status;
}

bool has_state(const fs::path& run) {
  std::error_code error;
  return fs::is_regular_file(run / "config.json", error) &&
         fs::is_regular_file(run / "checkpoints" / "state.safetensors", error);
}

// Runs of one configuration lie where run_dir puts them: the directories that begin with what stands before
// {time}.
std::optional<RunDirectory> newest_unfinished(const config::Config& config) {
  std::string pattern = config.run_dir;
  if (const auto name = pattern.find("{name}"); name != std::string::npos)
    pattern.replace(name, 6, config.name);
  const fs::path start = pattern.substr(0, pattern.find("{time}"));
  const fs::path folder = start.has_parent_path() ? start.parent_path() : fs::path(".");
  const std::string prefix = start.filename().string();
  const config::Json wanted = config::resolved(config);
  std::optional<RunDirectory> newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(prefix) || !has_state(entry.path())) continue;
    const auto time = fs::last_write_time(entry.path() / "checkpoints" / "state.safetensors", error);
    if (error || (newest && time <= newest_time)) continue;
    RunDirectory run = RunDirectory::open(entry.path().string());
    std::ifstream saved(run.config());
    if (config::Json::parse(saved, nullptr, false) != wanted || last_status(run) == "completed") continue;
    newest = std::move(run);
    newest_time = time;
  }
  return newest;
}

}  // namespace

std::optional<RunDirectory> run_to_resume(const std::string& config,
                                          const std::vector<std::string>& overrides,
                                          const std::string& resume) {
  require(!config.empty() || (!resume.empty() && resume != "auto"), "",
          "train: a configuration is missing; shipped ones are listed by `tandem ls configs`");
  if (resume.empty()) return {};
  if (resume == "auto") return newest_unfinished(config::load(config, overrides).config);
  require(config.empty(), "", "train: --resume {} goes on with the run's own configuration; leave out {}",
          resume, config);
  RunDirectory run = RunDirectory::open(resume);
  require(has_state(run.path()), "", "{}: this run has saved no state to go on with", resume);
  require(last_status(run) != "completed", "", "{}: this run has completed; nothing is left to resume",
          resume);
  return run;
}

}  // namespace tandem::train
