#include "report/facts.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/printable.h"
#include "core/units.h"
#include "report/curves.h"
#include "report/panels.h"

namespace tandem::report {

using runs::Json;

namespace {

constexpr const char* kNone = "–";

// A JSON value as text, strings without quotes.
std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  return value.is_null() ? kNone : value.dump();
}

// The value at "a.b.c"; null if there is none.
Json at(const Json& json, const std::string& path) {
  const Json* here = &json;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    const std::string key = path.substr(from, dot - from);
    if (!here->is_object() || !here->contains(key)) return {};
    here = &(*here)[key];
    from = dot + 1;
  }
  return *here;
}

std::string precision_of(const runs::RunRecord& run) {
  if (!run.sessions.empty() && !run.sessions.back().precision.empty()) return run.sessions.back().precision;
  return shown(at(run.config, "precision"));
}

std::string model_of(const runs::RunRecord& run) {
  const Json name = at(run.config, "model.name");
  if (name.is_string()) return name.get<std::string>();
  return at(run.config, "model.layers").is_array() ? "layers" : "";
}

double median_speed(const runs::RunRecord& run) {
  std::vector<double> values;
  for (const runs::StepEvent& event : run.steps) values.push_back(event.items_per_s);
  return median(std::move(values));
}

double last_loss(const runs::RunRecord& run) {
  return run.steps.empty() ? std::nan("") : run.steps.back().loss;
}

std::string number_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : kNone;
}

std::string speed_text(double value) { return std::isfinite(value) ? count_text(value) : kNone; }

std::string memory_text(const runs::RunRecord& run) {
  return run.peak_memory_bytes > 0 ? bytes_text(static_cast<double>(run.peak_memory_bytes)) : kNone;
}

std::string duration_of(const runs::RunRecord& run) {
  return run.wall_s > 0.0 ? duration_text(run.wall_s) : kNone;
}

void add(Facts& facts, const std::string& name, const std::string& value) {
  if (!value.empty() && value != kNone) facts.emplace_back(name, value);
}

// A component of the configuration: its name, then its values, "sgd: lr 0.1, momentum 0.9".
std::string component(const Json& json, const std::vector<std::string>& keys) {
  if (!json.is_object()) return json.is_null() ? "" : shown(json);
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    const Json value = at(json, key);
    // Values that are off are left out.
    const bool off = value.is_null() || value == Json("auto") || value == Json(false) ||
                     (value.is_number() && value.get<double>() == 0.0);
    if (!off) values.push_back(key + " " + shown(value));
  }
  const std::string name = json.contains("name") ? shown(json["name"]) : "";
  if (values.empty()) return name;
  return fmt::format("{}{}{}", name, name.empty() ? "" : ": ", fmt::join(values, ", "));
}

// The value of a key, shortened.
std::string brief(const runs::RunRecord& run, const std::string& key) {
  constexpr std::size_t kMost = 60;
  if (key == "precision") return precision_of(run);
  const std::string text = shown(at(run.config, key));
  return shortened(text, kMost);
}

// Keys "a.b.c" below `path`, down to keys that are not an object in every run that has them.
void keys_below(const std::vector<runs::RunRecord>& runs, const std::string& path,
                std::vector<std::string>& found) {
  std::vector<std::string> names;
  bool any = false, all = true;
  for (const runs::RunRecord& run : runs) {
    const Json value = path.empty() ? run.config : at(run.config, path);
    if (value.is_null()) continue;
    any = true;
    all = all && value.is_object();
    if (!value.is_object()) continue;
    for (const auto& [key, member] : value.items())
      if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
  }
  if (!any) return;
  if (!all) {
    found.push_back(path);
    return;
  }
  for (const std::string& name : names) keys_below(runs, path.empty() ? name : path + "." + name, found);
}

std::string delta_text(const tasks::MetricKind& kind, const std::optional<Point>& own,
                       const std::optional<Point>& baseline) {
  if (!own || !baseline) return kNone;
  const double delta = own->value - baseline->value;
  return kind.share ? fmt::format("{:+.2f}", 100.0 * delta) : fmt::format("{:+.4f}", delta);
}

}  // namespace

std::string judged_by(const runs::RunRecord& run) {
  if (run.evals.empty() || run.evals.back().metrics.empty()) return "";
  const Json best = at(run.config, "checkpoint.best");
  for (const auto& [name, value] : run.evals.back().metrics)
    if (best == Json(name)) return name;
  return run.evals.back().metrics.front().first;
}

std::optional<Point> final_of(const runs::RunRecord& run, const std::string& metric) {
  const std::string split = usual_split(run);
  for (auto event = run.evals.rbegin(); event != run.evals.rend(); ++event) {
    if (event->split != split) continue;
    for (const auto& [name, value] : event->metrics)
      if (name == metric && std::isfinite(value)) return Point{value, event->step};
  }
  return {};
}

std::optional<Point> best_of(const runs::RunRecord& run, const std::string& metric) {
  const std::string split = usual_split(run);
  const bool greater = run.kind_of(metric).greater_is_better;
  std::optional<Point> best;
  for (const runs::EvalEvent& event : run.evals) {
    if (event.split != split) continue;
    for (const auto& [name, value] : event.metrics) {
      if (name != metric || !std::isfinite(value)) continue;
      if (!best || (greater ? value > best->value : value < best->value)) best = {value, event.step};
    }
  }
  return best;
}

std::string metric_text(const tasks::MetricKind& kind, const std::optional<Point>& point) {
  if (!point) return kNone;
  return kind.share ? fmt::format("{:.2f} %", 100.0 * point->value) : fmt::format("{:.4f}", point->value);
}

std::vector<std::string> labels_of(const std::vector<runs::RunRecord>& runs) {
  std::vector<std::string> labels;
  for (const runs::RunRecord& run : runs) {
    const auto same =
        std::count_if(runs.begin(), runs.end(), [&](const auto& o) { return o.name == run.name; });
    labels.push_back(same > 1 ? run.path.string() : run.name);
  }
  return labels;
}

std::string headline(const runs::RunRecord& run) {
  std::vector<std::string> parts;
  const std::string model = model_of(run), data = shown(at(run.config, "data.name"));
  if (!model.empty() && data != kNone) parts.push_back(fmt::format("{} on {}", model, data));
  if (const std::string precision = precision_of(run); precision != kNone) parts.push_back(precision);
  if (!run.sessions.empty()) {
    const runs::Session& session = run.sessions.back();
    if (!session.device.empty()) parts.push_back(session.device);
    if (session.parameters > 0)
      parts.push_back(count_text(static_cast<double>(session.parameters)) + " parameters");
    if (!session.time.empty()) parts.push_back("started " + run.sessions.front().time);
  }
  return fmt::format("{}", fmt::join(parts, " · "));
}

std::vector<Tile> tiles_of(const runs::RunRecord& run) {
  std::vector<Tile> tiles;
  if (const std::string metric = judged_by(run); !metric.empty()) {
    const tasks::MetricKind kind = run.kind_of(metric);
    const auto best = best_of(run, metric), last = final_of(run, metric);
    const std::string split = usual_split(run);
    tiles.push_back({"Final " + metric, metric_text(kind, last),
                     last ? fmt::format("{}, step {}", split, last->step) : ""});
    tiles.push_back({"Best " + metric, metric_text(kind, best),
                     best ? fmt::format("{}, step {}{}", split, best->step,
                                        split == "test" ? "; chosen on that split, so optimistic" : "")
                          : ""});
  }
  tiles.push_back(
      {"Training loss", number_text(last_loss(run), 4),
       run.steps.empty() ? "no step was logged" : fmt::format("of step {}", run.steps.back().step)});
  const std::int64_t steps = run.last_step();
  tiles.push_back({"Steps", fmt::format("{}", steps),
                   fmt::format("{} skipped{}", run.skipped(),
                               run.skipped() > 0 && steps > 0
                                   ? fmt::format(" ({:.2g} %)", 100.0 * static_cast<double>(run.skipped()) /
                                                                    static_cast<double>(steps))
                                   : "")});
  tiles.push_back({"Throughput", speed_text(median_speed(run)), "items/s, median"});
  tiles.push_back(
      {"Wall time", duration_of(run),
       run.sessions.size() > 1 ? fmt::format("{} sessions", run.sessions.size()) : "one session"});
  tiles.push_back({"Peak memory", memory_text(run), "of tensors"});
  return tiles;
}

Facts config_facts(const runs::RunRecord& run) {
  Facts facts;
  const Json& config = run.config;
  if (!config.is_object()) return facts;
  add(facts, "model",
      component(at(config, "model"), {"depth", "width", "hidden", "in_channels", "num_classes"}));
  add(facts, "data", component(at(config, "data"), {"batch_size", "train_size", "image_size"}));
  add(facts, "loss", component(at(config, "loss"), {"label_smoothing"}));
  add(facts, "optimizer",
      component(at(config, "optimizer"), {"lr", "momentum", "beta1", "beta2", "weight_decay", "nesterov"}));
  add(facts, "schedule",
      component(at(config, "schedule"), {"warmup_steps", "warmup_epochs", "end_lr", "gamma"}));
  add(facts, "precision", precision_of(run));
  for (const char* key : {"epochs", "accumulate", "clip_norm", "clip_value", "seed"})
    if (at(config, key) != Json(1) || key != std::string("accumulate"))
      add(facts, key, shown(at(config, key)));
  add(facts, "ema", component(at(config, "ema"), {"decay"}));
  return facts;
}

Facts environment_facts(const runs::RunRecord& run) {
  Facts facts;
  const Json& environment = run.environment;
  const std::string version = shown(at(environment, "version")), build = shown(at(environment, "build"));
  if (version != kNone) add(facts, "tandem", build == kNone ? version : version + ", " + build);
  add(facts, "device", run.sessions.empty() ? "" : run.sessions.back().device);
  add(facts, "CPU", shown(at(environment, "cpu.model")));
  add(facts, "threads", shown(at(environment, "threads")));
  add(facts, "compiler", shown(at(environment, "compiler")));
  add(facts, "system", shown(at(environment, "system")));
  add(facts, "command", shown(at(environment, "command_line")));
  std::vector<std::string> sessions;
  for (const runs::Session& session : run.sessions)
    sessions.push_back(session.step > 0 ? fmt::format("{}, from step {}", session.time, session.step + 1)
                                        : session.time);
  add(facts, sessions.size() > 1 ? "sessions" : "session", fmt::format("{}", fmt::join(sessions, "; ")));
  add(facts, "directory", run.path.string());
  return facts;
}

std::vector<std::vector<std::string>> comparison(const std::vector<runs::RunRecord>& runs,
                                                 const std::vector<std::string>& labels) {
  const std::string metric = judged_by(runs.front());
  const std::string name = metric.empty() ? "metric" : metric;
  const bool on_test = usual_split(runs.front()) == "test";
  const std::string best_name = fmt::format("best {}{}", name, on_test ? ", chosen on test" : "");
  std::vector<std::vector<std::string>> rows{{"run", "status", "final " + name, "Δ", best_name, "final loss",
                                              "steps", "skipped", "items/s", "peak memory", "wall time"}};
  const tasks::MetricKind kind = runs.front().kind_of(metric);
  const auto baseline = final_of(runs.front(), metric);
  const bool all_done = std::all_of(runs.begin(), runs.end(),
                                    [](const runs::RunRecord& run) { return run.status() == "completed"; });
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const runs::RunRecord& run = runs[r];
    const auto last = final_of(run, metric), best = best_of(run, metric);
    rows.push_back({labels[r], run.status(), metric_text(kind, last),
                    r == 0 ? "baseline" : delta_text(kind, last, baseline), metric_text(kind, best),
                    number_text(last_loss(run), 4), fmt::format("{}", run.last_step()),
                    fmt::format("{}", run.skipped()), speed_text(median_speed(run)), memory_text(run),
                    duration_of(run)});
  }
  if (all_done)
    for (auto& row : rows) row.erase(row.begin() + 1);  // the status
  return rows;
}

std::vector<std::vector<std::string>> differences(const std::vector<runs::RunRecord>& runs,
                                                  const std::vector<std::string>& labels) {
  static const std::set<std::string> kOwn{"name", "run_dir"};
  constexpr std::size_t kMost = 40;
  std::vector<std::string> keys;
  keys_below(runs, "", keys);
  std::vector<std::vector<std::string>> rows{{"key"}};
  rows.front().insert(rows.front().end(), labels.begin(), labels.end());
  for (const std::string& key : keys) {
    if (kOwn.contains(key)) continue;
    std::vector<std::string> row{key};
    for (const runs::RunRecord& run : runs) row.push_back(brief(run, key));
    if (std::any_of(row.begin() + 2, row.end(), [&](const std::string& value) { return value != row[1]; }) &&
        rows.size() <= kMost)
      rows.push_back(std::move(row));
  }
  if (rows.size() == 1) rows.clear();
  return rows;
}

}  // namespace tandem::report
