// The advice on mixed precision that `summary` and `inspect --casts` print.
#pragma once

#include <optional>

#include "models/summary.h"
#include "tasks/task.h"

namespace tandem::cli {

// Summary of all networks of the task on a batch of `samples` zeros; several networks are listed under their
// paths.
models::ModelSummary summarised(tasks::Task& task, Index samples);

// `share`: share of the forward time in products that run in 16 bits (models::product_share), if it was
// measured.
void print_advice(const models::ModelSummary& summary, Index batch, std::optional<double> share);

}  // namespace tandem::cli
