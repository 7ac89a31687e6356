// The advice on mixed precision that `summary` and `inspect --casts` print.
#pragma once

#include "models/summary.h"

namespace tandem::commands {

void print_advice(const models::ModelSummary& summary, Index batch);

}  // namespace tandem::commands
