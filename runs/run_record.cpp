#include "runs/run_record.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "files/input.h"
#include "files/json_fields.h"
#include "runs/metrics_record.h"

namespace tandem::runs {

namespace fs = std::filesystem;
using files::integer_in;
using files::number_in;
using files::text_in;

namespace {

// Empty for runs of versions that did not record them.
tasks::MetricKinds kinds_in(const Json& event) {
  tasks::MetricKinds kinds;
  const auto metrics = event.find("metrics");
  if (metrics == event.end() || !metrics->is_object()) return kinds;
  for (const auto& [name, kind] : metrics->items()) {
    const auto says = [&](const char* what) {
      return kind.is_object() && kind.contains(what) && kind[what] == true;
    };
    kinds.emplace_back(name, tasks::MetricKind{says("share"), says("greater_is_better")});
  }
  return kinds;
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Metrics metrics_in(const Json& json) {
  Metrics metrics;
  const auto found = json.find("metrics");
  if (found == json.end() || !found->is_object()) return metrics;
  for (const auto& [name, value] : found->items())
    metrics.emplace_back(name, value.is_number() ? value.get<double>() : kNone);
  return metrics;
}

GradientExponents gradients_in(const Json& json) {
  GradientExponents found{.step = integer_in(json, "step"),
                          .loss_scale = number_in(json, "loss_scale", 1.0),
                          .total = integer_in(json, "total"),
                          .zeros = integer_in(json, "zeros"),
                          .flushed = integer_in(json, "flushed"),
                          .first = static_cast<int>(integer_in(json, "first"))};
  if (json.contains("saving_scale") && json["saving_scale"].is_number_integer())
    found.saving_scale = static_cast<int>(integer_in(json, "saving_scale"));
  if (json.contains("counts") && json["counts"].is_array())
    for (const Json& count : json["counts"])
      found.counts.push_back(count.is_number() ? count.get<double>() : 0.0);
  return found;
}

// Collects events in order; a resumed session replaces earlier events of the same steps.
class Collector {
 public:
  explicit Collector(RunRecord& run) : run_(run) {}

  // Returns whether it is an event.
  bool take(const Json& event) {
    const std::string kind = event.is_object() ? text_in(event, "event") : "";
    if (kind.empty()) return false;
    if (kind == "start") start(event);
    if (kind == "step") step(event);
    if (kind == "eval") {
      const EvalEvent found{integer_in(event, "step"), integer_in(event, "epoch"), text_in(event, "split"),
                            metrics_in(event)};
      evals_[{found.step, found.split}] = found;
    }
    if (kind == "overflow") {
      run_.overflows.push_back({integer_in(event, "step"), number_in(event, "loss_scale"),
                                text_in(event, "op"), text_in(event, "tensor"), integer_in(event, "index"),
                                text_in(event, "where"), text_in(event, "cause"), text_in(event, "phase")});
    }
    if (kind == "picture")
      pictures_[text_in(event, "file")] = {integer_in(event, "step"), integer_in(event, "epoch"),
                                           text_in(event, "name"), text_in(event, "file")};
    if (kind == "gradients") run_.gradients = gradients_in(event);
    if (kind == "end") end(event);
    return true;
  }

  void finish() {
    for (auto& [step, event] : steps_) run_.steps.push_back(event);
    for (auto& [step, event] : evals_) run_.evals.push_back(std::move(event));
    for (auto& [file, event] : pictures_) run_.pictures.push_back(std::move(event));
    std::ranges::stable_sort(run_.pictures, {}, &PictureEvent::step);
  }

 private:
  void start(const Json& event) {
    const std::int64_t before = event.contains("step") ? integer_in(event, "step") : -1;
    run_.sessions.push_back({text_in(event, "time"), text_in(event, "version"), text_in(event, "precision"),
                             text_in(event, "device"), integer_in(event, "parameters"),
                             std::max<std::int64_t>(before, 0), kinds_in(event)});
    run_.end.reset();
    if (before < 0) return;  // written by a version without this field
    std::erase_if(steps_, [&](const auto& entry) { return entry.first.first > before; });
    std::erase_if(pictures_, [&](const auto& entry) { return entry.second.step > before; });
    std::erase_if(evals_, [&](const auto& entry) { return entry.second.step > before; });
    std::erase_if(run_.overflows, [&](const auto& overflow) { return overflow.step > before; });
    if (run_.gradients && run_.gradients->step > before) run_.gradients.reset();
  }

  void step(const Json& event) {
    const std::int64_t step = integer_in(event, "step");
    const std::string phase = text_in(event, "phase");
    if (std::ranges::find(phases_, phase) == phases_.end()) phases_.push_back(phase);
    const auto order = std::ranges::find(phases_, phase) - phases_.begin();
    steps_[{step, order}] = {step,
                             integer_in(event, "applied"),
                             integer_in(event, "epoch"),
                             number_in(event, "loss"),
                             number_in(event, "lr"),
                             number_in(event, "loss_scale"),
                             integer_in(event, "skipped"),
                             number_in(event, "grad_norm"),
                             number_in(event, "items_per_s"),
                             phase};
  }

  void end(const Json& event) {
    EndEvent found{
        text_in(event, "status"),
        integer_in(event, "steps"),
        integer_in(event, "applied"),
        integer_in(event, "skipped"),
        number_in(event, "wall_s", 0.0),
        static_cast<std::size_t>(std::max<std::int64_t>(0, integer_in(event, "peak_memory_bytes"))),
        metrics_in(event)};
    run_.wall_s += found.wall_s;
    run_.peak_memory_bytes = std::max(run_.peak_memory_bytes, found.peak_memory_bytes);
    run_.end = std::move(found);
  }

  RunRecord& run_;
  std::vector<std::string> phases_;
  std::map<std::pair<std::int64_t, std::ptrdiff_t>, StepEvent> steps_;  // by step and phase
  std::map<std::string, PictureEvent> pictures_;                        // by file
  std::map<std::pair<std::int64_t, std::string>, EvalEvent> evals_;
};

// The last error in the log, whose lines are "2026-01-31 23:59:59.123 level message".
std::optional<std::string> last_error(const fs::path& log) {
  constexpr std::size_t kTime = 24;
  constexpr std::string_view kLevel = "error ";
  std::optional<std::string> found;
  files::each_line(files::read_text_if_there(log).value_or(""), [&](std::string_view line, bool) {
    if (line.size() > kTime && line.substr(kTime).starts_with(kLevel))
      found = line.substr(kTime + kLevel.size());
  });
  return found;
}

}  // namespace

std::string RunRecord::status() const { return end && !end->status.empty() ? end->status : "not ended"; }

std::int64_t RunRecord::skipped() const {
  return end ? end->skipped : steps.empty() ? 0 : steps.back().skipped;
}

std::vector<std::string> RunRecord::phases() const {
  std::vector<std::string> found;
  for (const StepEvent& step : steps)
    if (std::ranges::find(found, step.phase) == found.end()) found.push_back(step.phase);
  return found;
}

tasks::MetricKind RunRecord::kind_of(const std::string& metric) const {
  // Versions without kinds had only classifiers, whose metrics except the loss are shares.
  if (sessions.empty() || sessions.back().kinds.empty())
    return {.share = metric != "loss", .greater_is_better = metric != "loss"};
  return tasks::kind_of(sessions.back().kinds, metric);
}

std::int64_t RunRecord::last_step() const { return end ? end->steps : steps.empty() ? 0 : steps.back().step; }

void read_metrics(RunRecord& run, const std::string& text, const std::string& where) {
  Collector collector(run);
  std::vector<std::int64_t> damaged;
  std::int64_t line_number = 0, events = 0;
  bool cut = false;
  files::each_line(text, [&](std::string_view line, bool ended) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    if (collector.take(Json::parse(line, nullptr, false))) {
      ++events;
    } else if (!ended) {
      cut = true;
    } else {
      damaged.push_back(line_number);
    }
  });
  require(events > 0, "", "{}: {}", where,
          line_number == 0 ? "is empty: the run has written nothing yet"
                           : fmt::format("none of its {} lines is an event of a run", line_number));
  collector.finish();
  if (cut) run.notes.emplace_back("The last line of metrics.jsonl is incomplete and was left out.");
  if (!damaged.empty()) {
    const std::size_t shown = std::min<std::size_t>(damaged.size(), 5);
    run.notes.push_back(
        fmt::format("metrics.jsonl: {} cannot be read and {} left out: line {}{}.",
                    damaged.size() == 1 ? "one line" : fmt::format("{} lines", damaged.size()),
                    damaged.size() == 1 ? "was" : "were",
                    fmt::join(damaged.begin(), damaged.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    damaged.size() > shown ? ", …" : ""));
  }
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  std::error_code error;
  require(fs::is_directory(run.path, error), "", "{}: no such run directory", path);
  const fs::path full = fs::weakly_canonical(run.path, error);
  run.name = (error ? run.path : full).filename().string();
  // Reads the digest first: lines of a running run may be newer than the digest, not older.
  const std::string digest = running_digest((run.path / "metrics.jsonl.sha256").string());
  const auto metrics = files::read_text_if_there(run.path / "metrics.jsonl");
  require(metrics.has_value(), "", "{}: no run directory: it has no metrics.jsonl", path);
  read_metrics(run, *metrics, (run.path / "metrics.jsonl").string());
  if (!digest.empty() && !has_running_digest(*metrics, digest))
    run.notes.emplace_back(
        "metrics.jsonl is not what the run wrote: its SHA-256 is not the one in metrics.jsonl.sha256.");
  const std::string status = run.status();
  if (status == "failed" || status == "diverged")
    if (const auto why = last_error(run.path / "log.txt"))
      run.notes.push_back((status == "failed" ? "Failed: " : "Diverged: ") + *why);
  for (const auto& [file, to] :
       {std::pair{"config.json", &run.config}, {"environment.json", &run.environment}}) {
    const auto found = files::read_text_if_there(run.path / file);
    if (found) *to = Json::parse(*found, nullptr, false);
    if (to->is_object()) continue;
    run.notes.push_back(
        fmt::format("{} is {}: its content is left out.", file, found ? "damaged" : "missing"));
    *to = Json();
  }
  return run;
}

}  // namespace tandem::runs
