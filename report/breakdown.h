// Breakdown by class of a run's newest evaluation, for its page.
#pragma once

#include <string>
#include <vector>

#include "report/panels.h"
#include "runs/run_record.h"
#include "tasks/breakdown.h"

namespace tandem::report {

// Reads the breakdown in the run's directory; absent if it is missing or damaged.
std::optional<tasks::Breakdown> breakdown_of(const runs::RunRecord& run);

// Chart of the mean curve and of the classes' curves; with many classes, only those with the best and worst
// first metric. Without curves, the panel has neither chart nor note.
Panel curves_panel(const tasks::Breakdown& breakdown);

// A header, and a row for each class with percentages; "–" for missing values.
std::vector<std::vector<std::string>> breakdown_rows(const tasks::Breakdown& breakdown);

}  // namespace tandem::report
