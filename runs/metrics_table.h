// metrics.csv: the steps and evaluations of a run as one table.
#pragma once

#include <string>

#include "runs/run_record.h"

namespace tandem::runs {

// Columns: step, applied, epoch, loss, lr, loss_scale, skipped, grad_norm, items_per_s, then a column
// "split/metric" for each metric that was evaluated. A row for each step event, with the evaluations after
// that step; evaluations after a step that was not logged have a row of their own. What is absent or no
// finite number is empty. Numbers are written so that they read back as they were.
std::string csv_of(const RunRecord& run);

}  // namespace tandem::runs
