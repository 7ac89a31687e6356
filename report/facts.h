// Facts of runs in words and figures for reports, as plain text.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runs/run_record.h"

namespace tandem::report {

using Facts = std::vector<std::pair<std::string, std::string>>;

struct Tile {
  std::string name, value, more;
};

// A metric at a step.
struct Point {
  double value = 0.0;
  std::int64_t step = 0;
};

// The metric that a run is judged by: checkpoint.best, or the first there is; "" without evaluations.
std::string judged_by(const runs::RunRecord& run);
// Of the evaluations on the usual split; absent without a finite value.
std::optional<Point> final_of(const runs::RunRecord& run, const std::string& metric);
std::optional<Point> best_of(const runs::RunRecord& run, const std::string& metric);
// "93.42 %", "0.2134"; "–" when absent.
std::string metric_text(const tasks::MetricKind& kind, const std::optional<Point>& point);

// Names to tell the runs apart by: those of their directories, or paths where two have the same.
std::vector<std::string> labels_of(const std::vector<runs::RunRecord>& runs);

// "resnet20 on fashion_mnist · amp_fp16 · cpu · 272k parameters"
std::string headline(const runs::RunRecord& run);
std::vector<Tile> tiles_of(const runs::RunRecord& run);
// Of config.json: what matters most; empty without it.
Facts config_facts(const runs::RunRecord& run);
// Of environment.json and the sessions.
Facts environment_facts(const runs::RunRecord& run);

// Header and rows: the runs side by side, the first one the baseline.
std::vector<std::vector<std::string>> comparison(const std::vector<runs::RunRecord>& runs,
                                                 const std::vector<std::string>& labels);
// Keys of the configurations whose values differ, with the value of every run; header first. Empty without
// any.
std::vector<std::vector<std::string>> differences(const std::vector<runs::RunRecord>& runs,
                                                  const std::vector<std::string>& labels);

}  // namespace tandem::report
