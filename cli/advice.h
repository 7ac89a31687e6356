// The advice on mixed precision that `summary` and `inspect --casts` print.
#pragma once

#include <optional>

#include "models/summary.h"
#include "tasks/task.h"

namespace tandem::cli {

// Of all networks of the task, on a batch of `samples` zeros each: one, or several under their paths.
models::ModelSummary summarised(tasks::Task& task, Index samples);

// `share`: of the forward time in products that run in 16 bits (models::product_share), where it was
// measured.
void print_advice(const models::ModelSummary& summary, Index batch, std::optional<double> share);

}  // namespace tandem::cli
