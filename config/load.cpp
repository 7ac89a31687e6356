#include "config/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "config/compose.h"
#include "config/precision.h"
#include "core/error.h"
#include "core/pattern.h"
#include "core/printable.h"
#include "files/json_text.h"

namespace tandem::config {

namespace {

struct Composed {
  Value root;
  std::string path;
};

Composed compose(const std::string& config, const std::vector<std::string>& overrides) {
  Composed composed;
  composed.path = find_config(config);
  composed.root = read_with_bases(composed.path);
  for (const std::string& argument : overrides) {
    if (!composed.root.is(Value::Kind::object)) break;  // validation reports it
    apply_override(composed.root, argument, Config::schema());
  }
  composed.root.erase("$schema");
  return composed;
}

struct Found {
  const Value* value;  // the given value at the path, or the nearest above it
  std::string rest;    // the rest of the path below it; empty if the value itself was given
};

Found find_value(const Value& root, const std::string& path) {
  Found found{&root, path};
  while (!found.rest.empty()) {
    const std::size_t dot = std::min(found.rest.find('.'), found.rest.size());
    const std::string word = found.rest.substr(0, dot);
    const Value* next = found.value->find(word);
    if (!next && found.value->is(Value::Kind::list) && word.size() < 9 &&
        std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      const std::size_t index = std::stoul(word);
      if (index < found.value->items.size()) next = &found.value->items[index];
    }
    if (!next) break;
    found.value = next;
    found.rest = dot < found.rest.size() ? found.rest.substr(dot + 1) : "";
  }
  return found;
}

Origin origin_at(const Value& root, const std::string& path) { return find_value(root, path).value->origin; }

// Origin of a key's value: the default if neither the key nor a short form of its object was given.
std::string origin_of_key(const Value& root, const std::string& path) {
  const Found found = find_value(root, path);
  const bool short_form =
      found.value->is(Value::Kind::string) && (found.rest == "name" || found.rest == "path");
  return found.rest.empty() || short_form ? found.value->origin.place() : Origin{}.place();
}

// Rules over several keys, or beyond the types of keys.
class CrossChecks {
 public:
  CrossChecks(const Config& config, const Value& root) : config_(config), root_(root) {}

  std::vector<Problem> run() {
    for (Complaint& complaint : complaints(Config::schema(), &config_))
      check(false, complaint.path, std::move(complaint.what));
    if (config_.init_from && config_.init_from->freeze) regex("init_from.freeze", *config_.init_from->freeze);
    for (const auto& [pattern, precision] : config_.precision.layers) regex("precision.layers", pattern);
    if (problems_.empty()) precision();
    arms();
    const std::string& dir = config_.run_dir;
    check(!dir.empty(), "run_dir", "expected a path");
    return std::move(problems_);
  }

 private:
  void check(bool holds, const std::string& path, std::string what) {
    if (!holds) problems_.push_back({origin_at(root_, path), path, std::move(what)});
  }

  // An arm given as object has keys of `precision`, its name and the preset it starts from.
  void arms() {
    const Value* const compare = root_.find("compare");
    const Value* const arms = compare ? compare->find("arms") : nullptr;
    for (std::size_t i = 0; arms && i < arms->items.size(); ++i) {
      Value arm = arms->items[i];
      if (!arm.is(Value::Kind::object)) continue;
      const std::string path = fmt::format("compare.arms.{}", i);
      if (Value* start = arm.find("precision"); start && start->is(Value::Kind::object))
        keys_of_precision(*start, joined(path, "precision"));
      arm.erase("name");
      arm.erase("precision");
      keys_of_precision(arm, path);
    }
  }

  void keys_of_precision(Value& object, const std::string& path) {
    for (Problem& problem : validate(PrecisionConfig::schema(), object)) {
      problem.path = joined(path, problem.path);
      problems_.push_back(std::move(problem));
    }
  }

  // Contradictions between keys of `precision`, found by the library.
  void precision() {
    try {
      precision_of(config_.precision);
    } catch (const OptionError& error) {
      check(false, joined("precision", error.path()), error.detail());
    } catch (const UserError& error) {
      check(false, error.where() == "scaler" ? "precision.scaler" : "precision",
            std::string(error.message()));
    }
  }

  void regex(const std::string& path, const std::string& pattern) {
    try {
      compile_pattern(pattern);
    } catch (const UserError& error) {
      check(false, path, error.what());
    }
  }

  const Config& config_;
  const Value& root_;
  std::vector<Problem> problems_;
};

// Sets defaults that depend on other keys.
void fill_defaults(Config& config) {
  if (!config.data.eval_batch_size) config.data.eval_batch_size = config.data.batch_size;
}

struct Checked {
  Config config;
  std::vector<Problem> problems;
};

Checked check(Value& root) {
  Checked checked;
  checked.problems = validate(Config::schema(), root);
  if (!checked.problems.empty()) return checked;
  store_options(Config::schema(), &checked.config, root);
  fill_defaults(checked.config);
  checked.problems = CrossChecks(checked.config, root).run();
  return checked;
}

void list_values(const Json& json, const Value& root, const std::string& path,
                 std::vector<std::array<std::string, 2>>& rows) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, member] : json.items()) list_values(member, root, joined(path, key), rows);
    return;
  }
  rows.push_back({fmt::format("{} = {}", path, files::json_text(json)), origin_of_key(root, path)});
}

}  // namespace

Loaded load(const std::string& config, const std::vector<std::string>& overrides) {
  Composed composed = compose(config, overrides);
  Checked checked = check(composed.root);
  if (!checked.problems.empty()) throw UserError("", checked.problems.front().text());
  Loaded loaded{std::move(checked.config), std::move(composed.root), composed.path, ""};
  const std::filesystem::path path(composed.path);
  loaded.stem = valid_utf8(path.stem().string());
  if (loaded.config.name.empty()) loaded.config.name = loaded.stem;
  return loaded;
}

std::vector<Problem> problems_of(const std::string& config, const std::vector<std::string>& overrides) {
  Composed composed = compose(config, overrides);
  return check(composed.root).problems;
}

std::string place_of(const Value& root, const std::string& path) {
  std::string dotted;
  for (const char c : path) {
    if (c != ']') dotted += c == '[' ? '.' : c;
  }
  return origin_at(root, dotted).place();
}

Json resolved(const Config& config) { return to_json(load_options(Config::schema(), &config)); }

std::string with_origins(const Loaded& loaded) {
  std::vector<std::array<std::string, 2>> rows;
  list_values(resolved(loaded.config), loaded.given, "", rows);
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, std::min<std::size_t>(row[0].size(), 60));
  std::string text;
  for (const auto& [assignment, origin] : rows)
    text += fmt::format("{:<{}}  {}\n", assignment, width, origin);
  return text;
}

}  // namespace tandem::config
