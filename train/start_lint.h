// Lint of a model before the first step: layers that do not suit the 16-bit types in which it is trained.
#pragma once

#include <string>
#include <vector>

#include "amp/lint.h"
#include "config/config.h"
#include "tasks/task.h"

namespace tandem::train {

// Runs forwards of all phases on an eighth of a training batch, at least two samples, in f32 and under
// `precision`. Weights, statistics, gradients and the run's random numbers stay as they are. Returns nothing
// if there is no such batch or the model rejects it: the first step then reports the error.
std::vector<amp::LintLine> lint_of(tasks::Task& task, const amp::ResolvedPrecision& precision,
                                   const config::Config& config, Device device);

}  // namespace tandem::train
