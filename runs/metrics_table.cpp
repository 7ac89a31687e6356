#include "runs/metrics_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "files/csv.h"

namespace tandem::runs {

namespace {

std::string field(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

// With several phases, the phase follows the step.
std::string step_fields(const StepEvent& event, bool phases) {
  return fmt::format("{}{},{},{},{},{},{},{},{},{}", event.step,
                     phases ? "," + files::csv_field(event.phase) : "", event.applied, event.epoch,
                     field(event.loss), field(event.lr), field(event.loss_scale), event.skipped,
                     field(event.grad_norm), field(event.items_per_s));
}

}  // namespace

std::string csv_of(const RunRecord& run) {
  struct Row {
    std::string step;
    std::map<std::string, double> metrics;
  };
  const std::vector<std::string> phases = run.phases();
  const bool several = phases.size() > 1;
  std::map<std::pair<std::int64_t, std::ptrdiff_t>, Row> rows;  // by step and phase
  std::vector<std::string> columns;
  for (const StepEvent& event : run.steps)
    rows[{event.step, std::ranges::find(phases, event.phase) - phases.begin()}].step =
        step_fields(event, several);
  for (const EvalEvent& event : run.evals) {
    const std::ptrdiff_t last = several ? std::ssize(phases) - 1 : 0;
    Row& row = rows[{event.step, last}];
    if (row.step.empty())
      row.step = fmt::format("{},{},{},,,,,,", event.step, several ? "," : "", event.epoch);
    for (const auto& [name, value] : event.metrics) {
      const std::string column = event.split + "/" + name;
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
      row.metrics[column] = value;
    }
  }
  std::string text = several ? "step,phase,applied," : "step,applied,";
  text += "epoch,loss,lr,loss_scale,skipped,grad_norm,items_per_s";
  for (const std::string& column : columns) {
    text += ',';
    text += files::csv_field(column);
  }
  text += '\n';
  for (const auto& [step, row] : rows) {
    text += row.step;
    for (const std::string& column : columns) {
      const auto found = row.metrics.find(column);
      text += ',';
      if (found != row.metrics.end()) text += field(found->second);
    }
    text += '\n';
  }
  return text;
}

}  // namespace tandem::runs
