// metrics.csv: the steps and evaluations of a run as one table.
#pragma once

#include <string>

#include "runs/run_record.h"

namespace tandem::runs {

// Columns: step, applied, epoch, loss, lr, loss_scale, skipped, grad_norm, items_per_s, then "split/metric"
// for each evaluated metric. Each step event has a row, with the evaluations after that step; evaluations
// after a step without event have their own row. Missing and non-finite values are empty. Numbers are written
// with full precision.
std::string csv_of(const RunRecord& run);

}  // namespace tandem::runs
