// The advice on mixed precision that `summary` and `inspect --casts` print.
#pragma once

#include "models/summary.h"

namespace tandem::commands {

// `share`: of the forward time in products that run in 16 bits (models::product_share).
void print_advice(const models::ModelSummary& summary, Index batch, double share);

}  // namespace tandem::commands
