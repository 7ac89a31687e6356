// Facts about runs for reports, as plain text.
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

// The metric checkpoint.best, or the first one; "" without evaluations.
std::string judged_by(const runs::RunRecord& run);
// Values in the evaluations on the usual split; absent without a finite value.
std::optional<Point> final_of(const runs::RunRecord& run, const std::string& metric);
std::optional<Point> best_of(const runs::RunRecord& run, const std::string& metric);
// "93.42 %", "0.2134"; "–" if absent.
std::string metric_text(const tasks::MetricKind& kind, const std::optional<Point>& point);

// Labels of runs: names of their directories, or paths if names are equal.
std::vector<std::string> labels_of(const std::vector<runs::RunRecord>& runs);

// "resnet20 on fashion_mnist · amp_fp16 · cpu · 272k parameters"
std::string headline(const runs::RunRecord& run);
std::vector<Tile> tiles_of(const runs::RunRecord& run);
// The most important values in config.json; empty without it.
Facts config_facts(const runs::RunRecord& run);
// From environment.json and the sessions.
Facts environment_facts(const runs::RunRecord& run);

// Header and rows of the comparison; the first run is the baseline.
std::vector<std::vector<std::string>> comparison(const std::vector<runs::RunRecord>& runs,
                                                 const std::vector<std::string>& labels);
// Keys whose values differ between the configurations, with the value of every run; header first. Empty if
// there are none.
std::vector<std::vector<std::string>> differences(const std::vector<runs::RunRecord>& runs,
                                                  const std::vector<std::string>& labels);

}  // namespace tandem::report
