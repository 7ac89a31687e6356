#include "studies/compare/experiment.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/precision.h"
#include "config/task.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "train/setup.h"

namespace tandem::compare {

namespace {

using config::Json;

bool allowed_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

// {"scaler": {"static": 64}} → "scaler-static-64"
std::string words_of(const Json& json) {
  std::string words;
  const auto add = [&](const std::string& word) {
    if (!word.empty()) words += (words.empty() ? "" : "-") + word;
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      add(words_of(Json(key)));
      add(words_of(value));
    }
  } else if (json.is_array()) {
    for (const Json& item : json) add(words_of(item));
  } else {
    for (const char c : json.is_string() ? json.get<std::string>() : json.dump())
      if (allowed_in_name(c)) words += c;
  }
  return words;
}

// Merges `over` into `under`, objects key by key.
void lay_over(Json& under, const Json& over) {
  for (const auto& [key, value] : over.items()) {
    if (value.is_object() && under.contains(key) && under[key].is_object()) {
      lay_over(under[key], value);
    } else {
      under[key] = value;
    }
  }
}

class ExperimentBuilder {
 public:
  explicit ExperimentBuilder(const Request& request) : request_(request) {}

  Experiment build() {
    loaded_ = config::load(request_.config, request_.overrides);
    const auto& config = loaded_.config;
    const config::CompareConfig compare = config.compare.value_or(config::CompareConfig{});
    experiment_.config = request_.config;
    experiment_.name = config.name;
    experiment_.overrides = request_.overrides;
    experiment_.metric = config.best();
    const tasks::MetricKind kind = tasks::kind_of(config::metrics(config), experiment_.metric);
    experiment_.percent = kind.share;
    experiment_.greater_is_better = kind.greater_is_better;
    experiment_.margin = compare.margin;
    experiment_.default_margin =
        !loaded_.given.find("compare") || !loaded_.given.find("compare")->find("margin");
    experiment_.speed_steps = compare.speed_steps;
    experiment_.speed_rounds = compare.speed_rounds;
    for (std::int64_t i = 0; i < compare.seeds; ++i) experiment_.seeds.push_back(config.seed + i);
    experiment_.out = request_.out.empty() ? fmt::format("runs/{}-compare", config.name) : request_.out;
    require(valid_utf8(experiment_.out.string()) == experiment_.out.string(), "",
            "compare: --out {} is not valid UTF-8; choose another folder", experiment_.out.string());
    std::vector<Json> arms = compare.arms;
    if (arms.empty()) arms = {"fp32", kNull, "amp_fp16", "amp_bf16"};
    for (std::size_t i = 0; i < arms.size(); ++i) add_arm(i, arms[i]);
    const auto baseline = std::find_if(experiment_.arms.begin(), experiment_.arms.end(),
                                       [](const Arm& arm) { return arm.name == kBaseline; });
    require(baseline != experiment_.arms.end(), "", "{}: compare.arms: \"fp32\", the baseline, is missing",
            place("compare.arms"));
    std::rotate(experiment_.arms.begin(), baseline, baseline + 1);
    return std::move(experiment_);
  }

 private:
  std::string place(const std::string& path) const { return config::place_of(loaded_.given, path); }

  [[noreturn]] void refuse(std::size_t index, const std::string& what) const {
    const std::string path = fmt::format("compare.arms.{}", index);
    throw UserError("", fmt::format("{}: {}: {}", place(path), path, what));
  }

  // The precision preset as an object.
  Json expanded(std::size_t index, const std::string& word) const {
    const auto& presets = config::PrecisionConfig::schema().presets;
    if (const auto found = presets.find(word); found != presets.end()) return config::to_json(found->second);
    std::vector<std::string> known{kNull};
    for (const auto& [name, preset] : presets) known.push_back(name);
    const std::string near = did_you_mean(word, known);
    refuse(index, fmt::format("no precision is named \"{}\"{}", word,
                              near.empty() ? fmt::format("; there are {}", fmt::join(known, ", ")) : near));
  }

  void add_arm(std::size_t index, const Json& given) {
    if (!given.is_string() && !given.is_object())
      refuse(index, fmt::format("expected the name of a precision or an object, got {}", given.dump()));
    Arm arm;
    Json precision;
    const bool null = given == kNull;
    if (given.is_string()) {
      arm.name = given.get<std::string>();
      precision = null ? Json("fp32") : expanded(index, arm.name);
    } else {
      Json rest = given;
      const Json base = rest.contains("precision") ? rest["precision"] : Json::object();
      if (rest.contains("name") && rest["name"].is_string()) arm.name = rest["name"].get<std::string>();
      rest.erase("name");
      rest.erase("precision");
      if (arm.name.empty()) {
        arm.name = words_of(base);
        if (!rest.empty()) arm.name += (arm.name.empty() ? "" : "-") + words_of(rest);
      }
      if (!base.is_string() && !base.is_object())
        refuse(index, fmt::format("precision: expected a name or an object, got {}", base.dump()));
      precision = base.is_string() ? expanded(index, base.get<std::string>()) : base;
      lay_over(precision, rest);
    }
    if (arm.name.empty() || !std::all_of(arm.name.begin(), arm.name.end(), allowed_in_name) ||
        arm.name.find_first_not_of('.') == std::string::npos)
      refuse(index, fmt::format("\"{}\" is not a folder name; give the arm a \"name\"", arm.name));
    for (const Arm& other : experiment_.arms)
      if (other.name == arm.name) refuse(index, fmt::format("two arms have the name {}", arm.name));
    finish(index, std::move(arm), precision, null);
  }

  void finish(std::size_t index, Arm arm, Json precision, bool null) {
    arm.overrides = {"compare=null", "precision=" + precision.dump()};
    if (null) arm.overrides.push_back("init_ulps=1");
    std::vector<std::string> all = experiment_.overrides;
    all.insert(all.end(), arm.overrides.begin(), arm.overrides.end());
    for (const config::Problem& problem : config::problems_of(experiment_.config, all))
      refuse(index, fmt::format("{}: {}", problem.path, problem.what));
    config::Loaded loaded = config::load(experiment_.config, all);
    // Arms retry skipped steps by default, so that all have the same number of applied updates.
    if (precision.is_object() && !precision.contains("on_skip") &&
        config::precision_of(loaded.config.precision).scaler.moves()) {
      precision["on_skip"] = "retry";
      return finish(index, std::move(arm), std::move(precision), null);
    }
    if (arm.name == kBaseline && !loaded.config.precision.is_fp32())
      refuse(index, "the arm named fp32 must be fp32");
    train::prepare_machine(loaded);
    config::PrecisionConfig label = loaded.config.precision;
    label.on_skip = "drop";
    arm.precision = label.label();
    arm.emulated = !label.is_fp32() && label.dtype == "fp16";
    experiment_.arms.push_back(std::move(arm));
  }

  const Request& request_;
  config::Loaded loaded_;
  Experiment experiment_;
};

}  // namespace

std::filesystem::path Experiment::run_directory(const Arm& arm, std::int64_t seed) const {
  return arm_directory(arm) / fmt::format("seed-{}", seed);
}

std::vector<std::string> Experiment::arguments(const Arm& arm) const {
  std::vector<std::string> all = overrides;
  all.insert(all.end(), arm.overrides.begin(), arm.overrides.end());
  return all;
}

std::vector<std::string> Experiment::arguments(const Arm& arm, std::int64_t seed) const {
  std::vector<std::string> all = arguments(arm);
  all.push_back(fmt::format("seed={}", seed));
  // Quoted, so that a folder name like 7 stays a string.
  all.push_back("run_dir=" + Json(run_directory(arm, seed).string()).dump());
  return all;
}

Experiment make_experiment(const Request& request) { return ExperimentBuilder(request).build(); }

}  // namespace tandem::compare
