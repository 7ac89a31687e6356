// What of a model does not fit the 16-bit types that it is to train in, said before the first step.
#pragma once

#include <string>
#include <vector>

#include "amp/lint.h"
#include "config/config.h"
#include "tasks/task.h"

namespace tandem::train {

// Looks at forwards of all phases over an eighth of a batch of the training data, at least two samples, in
// f32 and under `plan`. The model's weights, statistics and gradients stay as they are, and no random number
// of a run is drawn. Where such a batch cannot be had, or the model does not take it, there are no lines: the
// first step says why.
std::vector<amp::LintLine> lint_of(tasks::Task& task, const amp::ResolvedPrecision& plan,
                                   const config::Config& config, Device device);

}  // namespace tandem::train
