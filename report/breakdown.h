// Figures of each class by the newest evaluation of a run, for its page.
#pragma once

#include <string>
#include <vector>

#include "report/panels.h"
#include "runs/run_record.h"
#include "tasks/breakdown.h"

namespace tandem::report {

// Of the run's directory; nothing where it has none, or where the file is damaged.
std::optional<tasks::Breakdown> breakdown_of(const runs::RunRecord& run);

// The mean of the curves, and those of the classes: of many the ones whose first figure is best and worst.
// Without curves: no picture and no note.
Panel curves_panel(const tasks::Breakdown& breakdown);

// A row for each class under a header; figures as percentages, "–" where there is none.
std::vector<std::vector<std::string>> breakdown_rows(const tasks::Breakdown& breakdown);

}  // namespace tandem::report
