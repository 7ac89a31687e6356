#include "train/resume.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "core/cpu/level.h"
#include "core/error.h"
#include "files/input.h"
#include "files/json_fields.h"
#include "files/json_text.h"
#include "runs/checkpoints.h"

namespace tandem::train {

namespace fs = std::filesystem;

namespace {

// Keys that do not affect the results. A final dot includes all keys below.
// clang-format off
constexpr std::array<std::string_view, 21> kChangeable{
    "name", "run_dir", "epochs", "log_every", "eval.", "checkpoint.", "compare.", "on_divergence", "tensorboard",
    "tensorboard_histograms", "data.workers", "data.prefetch", "data.eval_batch_size",
    "data.max_image_mib", "data.skip_bad_samples", "data.max_bad_samples", "threads", "device", "autotune", "cuda_graph",
    "parallel."};
// clang-format on

bool may_change(std::string_view key) {
  return std::ranges::any_of(kChangeable, [&](std::string_view each) {
    if (each.ends_with('.')) return key.starts_with(each) || key == each.substr(0, each.size() - 1);
    return key == each || (key.starts_with(each) && key[each.size()] == '.');
  });
}

// Path of every leaf → its value as JSON. An empty object or list is a leaf.
void add_leaves(const config::Json& json, const std::string& path,
                std::map<std::string, std::string>& leaves) {
  if (!json.is_structured() || json.empty()) {
    leaves[path] = files::json_text(json);
    return;
  }
  std::size_t index = 0;
  if (json.is_array()) {
    for (const auto& item : json) add_leaves(item, fmt::format("{}.{}", path, index++), leaves);
  } else {
    for (const auto& [key, value] : json.items())
      add_leaves(value, path.empty() ? key : path + "." + key, leaves);
  }
}

// A precision that is an object in one and a name in the other is compared as a whole, not by thirty keys.
config::Json with_short_precision(const config::Json& json, const config::Json& other) {
  const auto is_object = [](const config::Json& j) {
    return j.contains("precision") && j["precision"].is_object();
  };
  if (!is_object(json) || is_object(other)) return json;
  config::Json shorter = json;
  shorter["precision"] =
      fmt::format("{} {}", json["precision"].value("level", ""), json["precision"].value("dtype", ""));
  return shorter;
}

config::Json json_of(const std::string& path) {
  config::Json json = config::Json::parse(files::read_text(path), nullptr, false);
  // A value that failed to parse compares neither equal nor unequal.
  require(json.is_object(), path, "is damaged: it is not a JSON object");
  return json;
}

// Ignores the order of keys.
bool same_values(const config::Json& a, const config::Json& b) {
  return nlohmann::json(a) == nlohmann::json(b);
}

// Status of the last end event; "" if there is none.
std::string last_status(const runs::RunDirectory& run) {
  std::string status;
  files::each_line(files::read_text_if_there(run.metrics()).value_or(""), [&](std::string_view line, bool) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (files::text_in(event, "event") == "end") status = files::text_in(event, "status");
  });
  return status;
}

// Whether nothing is left to train within `epochs`. A run that stopped at --limit-steps also has status
// completed.
bool has_completed(const runs::RunDirectory& run, std::int64_t epochs) {
  if (last_status(run) != "completed") return false;
  const auto state = runs::newest_state(run);
  return state && state->epoch > epochs;
}

// Searches the directories whose paths start with the part of run_dir before {time}.
std::optional<runs::RunDirectory> newest_unfinished(const config::Config& config,
                                                    std::vector<std::string>& ignored_runs) {
  std::string pattern = config.run_dir;
  if (const auto name = pattern.find("{name}"); name != std::string::npos)
    pattern.replace(name, 6, config.name);
  const fs::path start = pattern.substr(0, pattern.find("{time}"));
  const fs::path folder = start.has_parent_path() ? start.parent_path() : fs::path(".");
  const std::string prefix = start.filename().string();
  const config::Json wanted = config::resolved(config);
  std::optional<runs::RunDirectory> newest;
  fs::file_time_type newest_time;
  if (files::kind_of(folder) == files::Kind::absent) return {};
  for (const auto& entry : files::entries_of(folder)) {
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with(prefix) || files::is_being_written(path)) continue;
    try {
      if (!runs::RunDirectory::is_run(path)) continue;
      std::error_code error;
      const auto time = fs::last_write_time(path / "checkpoints", error);
      if (error || (newest && time <= newest_time)) continue;
      runs::RunDirectory run = runs::RunDirectory::open(path.string());
      if (!same_values(json_of(run.config()), wanted) || has_completed(run, config.epochs)) continue;
      newest = std::move(run);
      newest_time = time;
    } catch (const Error& error) {
      ignored_runs.push_back(fmt::format("{} is ignored by --resume auto: {}", path.string(), error.what()));
    }
  }
  return newest;
}

}  // namespace

std::optional<runs::RunDirectory> run_to_resume(const std::string& config,
                                                const std::vector<std::string>& overrides,
                                                const std::string& resume,
                                                std::vector<std::string>& ignored_runs) {
  require(!config.empty() || (!resume.empty() && resume != "auto"), "",
          "train: a configuration is missing; `tandem ls configs` lists the shipped ones");
  const bool names_run = !config.empty() && runs::RunDirectory::is_run(config);
  if (resume.empty() && !names_run) return {};
  if (resume == "auto" && !names_run)
    return newest_unfinished(config::load(config, overrides).config, ignored_runs);
  require(config.empty() || names_run, "",
          "train: --resume {} uses the run's own configuration; leave out {}", resume, config);
  require(!names_run || resume.empty() || resume == "auto", "",
          "train: {} and --resume {} are two runs; give only one", config, resume);
  const std::string path = names_run ? config : resume;
  runs::RunDirectory run = runs::RunDirectory::open(path);
  const std::int64_t epochs = config::load(run.config(), overrides).config.epochs;
  require(!has_completed(run, epochs), "",
          "{}: this run has completed; nothing is left to resume. Give more epochs to continue it "
          "(epochs=N), or start a new run from {}",
          path, run.config());
  return run;
}

namespace {

// Default of a key that did not exist when a run was saved; "" for keys without a default.
std::string default_of(const std::string& path, const std::string& task) {
  for (const auto& [listed, key, only_for] : config::list_keys(config::Config::schema(), task))
    if (listed == path && !key->required)
      return options::to_string(key->default_value.is(options::Value::Kind::null) &&
                                        !key->type.keyword.empty()
                                    ? options::Value(key->type.keyword)
                                    : key->default_value);
  return "";
}

}  // namespace

ConfigChanges changes_since(const config::Json& saved, const config::Json& now) {
  std::map<std::string, std::string> before, after;
  add_leaves(with_short_precision(saved, now), "", before);
  add_leaves(with_short_precision(now, saved), "", after);
  ConfigChanges changes;
  std::vector<std::string> refused;
  const auto compare = [&](const std::string& key) {
    const auto value = [&](const std::map<std::string, std::string>& in) {
      const auto found = in.find(key);
      return found == in.end() ? std::string("absent") : found->second;
    };
    if (value(before) == value(after)) return;
    if (!before.contains(key) && value(after) == default_of(key, now.value("task", ""))) return;
    const std::string text = fmt::format("{}: {} → {}", key, value(before), value(after));
    const bool precision = key == "precision" || key.starts_with("precision.");
    changes.precision |= precision;
    (precision || may_change(key) ? changes.notes : refused).push_back(text);
  };
  for (const auto& [key, value] : before) compare(key);
  for (const auto& [key, value] : after) {
    if (!before.contains(key)) compare(key);
  }
  require(
      refused.empty(), "",
      "this run cannot resume with another {}; start a new one, optionally from these weights: init_from=RUN",
      fmt::join(refused, ", "));
  return changes;
}

namespace {

// The environment that the run recorded; null if it is missing or damaged.
nlohmann::json environment_of(const runs::RunDirectory& run) {
  if (files::kind_of(run.environment()) != files::Kind::file) return {};
  const auto environment = nlohmann::json::parse(files::read_text(run.environment()), nullptr, false);
  return environment.is_object() ? environment : nlohmann::json();
}

}  // namespace

std::string note_on_ranks(const runs::RunDirectory& run, int ranks) {
  const auto environment = environment_of(run);
  const auto listed = environment.find("ranks");
  const std::size_t before = listed != environment.end() && listed->is_array() ? listed->size() : 1;
  if (environment.is_null() || before == static_cast<std::size_t>(ranks)) return "";
  return fmt::format("changed: ranks: {} → {}", before, ranks);
}

std::string note_on_level(const runs::RunDirectory& run, bool deterministic) {
  const auto environment = environment_of(run);
  const auto cpu = environment.find("cpu");
  if (cpu == environment.end()) return "";
  const std::string before = files::text_in(*cpu, "level"), now(cpu::name_of(cpu::level()));
  if (before.empty() || before == now) return "";
  require(!deterministic, "",
          "deterministic: the run was computed with the kernels of {}, this process has those of {}, which "
          "round sums differently; set TANDEM_ISA={} if the CPU and the build have them",
          before, now, before);
  return fmt::format("changed: kernels of {} → {}, which round sums differently", before, now);
}

}  // namespace tandem::train
