#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "autograd/ops/all_ops.h"
#include "cli/commands.h"
#include "config/compose.h"
#include "config/describe.h"
#include "config/load.h"
#include "core/error.h"
#include "core/suggest.h"
#include "files/json_text.h"
#include "files/output.h"
#include "optim/scaler.h"

namespace tandem::cli {

namespace {

using config::Json;
using Rows = std::vector<std::pair<std::string, std::string>>;

void print(const Rows& rows) {
  std::size_t width = 0;
  for (const auto& [name, help] : rows) width = std::max(width, name.size());
  for (const auto& [name, help] : rows) output::print("{:<{}}  {}\n", name, width, help);
}

void print_json(const Json& json) { output::print("{}\n", files::json_text(json, 2)); }

void require_begun(const ListArguments& arguments, const std::vector<std::string>& names) {
  require(std::ranges::any_of(names, [&](const auto& name) { return name.starts_with(arguments.prefix); }),
          "", "ls {0}: no name starts with \"{1}\"{2} (tandem ls {0})", arguments.what, arguments.prefix,
          did_you_mean(arguments.prefix, names));
}

// The names that a key accepts in any task, each with its help.
Rows named_by(const std::string& path) {
  Rows rows;
  for (const auto& listed : config::list_keys(config::Config::schema())) {
    const options::Type& type = listed.key->type;
    if (listed.path != path) continue;
    for (std::size_t i = 0; i < type.meanings.size(); ++i) {
      if (std::ranges::count(rows, type.choices[i], &Rows::value_type::first) == 0)
        rows.emplace_back(type.choices[i], type.meanings[i]);
    }
  }
  return rows;
}

// Listable families, and the keys that name their entries.
const std::map<std::string, std::string>& families() {
  static const std::map<std::string, std::string> paths{{"tasks", "task"},
                                                        {"models", "model.name"},
                                                        {"layers", "model.layers[].type"},
                                                        {"datasets", "data.name"},
                                                        {"transforms", "data.augment[].name"},
                                                        {"losses", "loss.name"},
                                                        {"optimizers", "optimizer.name"},
                                                        {"schedules", "schedule.name"}};
  return paths;
}

Rows ops() {
  Rows rows;
  for (const OpInfo* info : all_op_infos()) rows.emplace_back(info->name, name_of(info->rule));
  return rows;
}

// Presets of `precision` and `precision.scaler`.
Rows presets() {
  Rows rows{{"fp32", "everything in FP32"},
            {"amp_fp16", "level O1 with FP16: casts per op, FP32 masters, dynamic loss scale"},
            {"amp_bf16", "level O1 with BF16: casts per op, FP32 masters, no loss scale"}};
  for (const optim::ScalerPreset& preset : optim::scaler_presets()) {
    if (preset.name != "tandem")
      rows.emplace_back(preset.name, fmt::format("loss scale: {}", preset.summary));
  }
  return rows;
}

// "sgd"; for phases with separate optimizers, all their names.
std::string optimizer_names(const config::Config& config) {
  std::vector<std::string> names;
  for (const auto& [phase, chosen] : config.optimizers)
    if (std::ranges::find(names, chosen.name()) == names.end()) names.push_back(chosen.name());
  return names.empty() ? config.optimizer.name() : fmt::format("{}", fmt::join(names, " and "));
}

Rows configs() {
  Rows rows;
  for (const std::string& name : config::shipped_names()) {
    const auto loaded = config::load(name);
    const auto& task = loaded.config.task;
    const std::string model = task.value("model.name").text;
    rows.emplace_back(name, fmt::format("{} on {}, {}, {} epochs", model.empty() ? "layers" : model,
                                        task.value("data.name").text, optimizer_names(loaded.config),
                                        loaded.config.epochs));
  }
  return rows;
}

void print_keys(const ListArguments& arguments) {
  const config::Schema& schema = config::Config::schema();
  std::vector<std::string> paths;
  for (const auto& listed : config::list_keys(schema)) paths.push_back(listed.path);
  require_begun(arguments, paths);
  if (arguments.json_schema) {
    output::print("{}\n", config::keys_as_json_schema(schema).dump(2));
  } else if (arguments.json) {
    print_json({{"keys", config::keys_as_json(schema, arguments.prefix)}});
  } else {
    output::print("{}", arguments.markdown ? config::keys_as_markdown(schema)
                                           : config::keys_as_text(schema, arguments.prefix));
  }
}

void print_rows(const ListArguments& arguments, Rows rows) {
  std::vector<std::string> names;
  for (const auto& [name, help] : rows) names.push_back(name);
  require_begun(arguments, names);
  std::erase_if(rows, [&](const auto& row) { return !row.first.starts_with(arguments.prefix); });
  if (!arguments.json) return print(rows);
  Json list = Json::array();
  for (const auto& [name, help] : rows) list.push_back({{"name", name}, {"help", help}});
  print_json({{arguments.what, list}});
}

}  // namespace

int list(const ListArguments& arguments) {
  require(!arguments.what.empty(), "", "ls: give one of {}, ops, presets, configs or keys (tandem ls --help)",
          fmt::join(families() | std::views::keys, ", "));
  require(arguments.what == "keys" || !(arguments.json_schema || arguments.markdown), "",
          "ls {}: --json-schema and --markdown need `ls keys`", arguments.what);
  require(arguments.prefix.empty() || !(arguments.json_schema || arguments.markdown), "",
          "ls keys {}: --json-schema and --markdown print all keys; leave out the prefix", arguments.prefix);
  if (const auto family = families().find(arguments.what); family != families().end())
    print_rows(arguments, named_by(family->second));
  if (arguments.what == "ops") print_rows(arguments, ops());
  if (arguments.what == "presets") print_rows(arguments, presets());
  if (arguments.what == "configs") print_rows(arguments, configs());
  if (arguments.what == "keys") print_keys(arguments);
  return 0;
}

}  // namespace tandem::cli
