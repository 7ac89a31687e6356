// Checks before a run starts, for errors that would otherwise appear after its first steps. They use the
// device `shapes` (core/shapes_backend.h) and take a few milliseconds.
#pragma once

#include <vector>

#include "amp/lint.h"
#include "config/task.h"

namespace tandem::train {

// Throws UserError, with the place in the configuration and the way out, if
// - the metric that chooses the best epoch is not defined on the validation split,
// - the details that the run is to write (Task::keeps_details) cannot be computed for this data,
// - a batch of an epoch, or one of its `parts`, has too few samples to train on.
void check_start(const config::Loaded& loaded, const tasks::DataPtr& data, Index parts);

// Reads every sample of the data. Throws UserError with the number of unreadable samples; with `tells`,
// prints each of them on a line.
void read_everything(const tasks::Data& data, bool tells);

// Lint of the model: layers that do not suit the 16-bit types in which it is trained. Runs forwards of all
// phases on an eighth of a training batch, at least two samples, in f32 and under `precision`. Weights,
// statistics, gradients and the run's random numbers stay as they are. Returns nothing if there is no such
// batch or the model rejects it: the first step then reports the error.
std::vector<amp::LintLine> lint_of(tasks::Task& task, const amp::ResolvedPrecision& precision,
                                   const config::Config& config, Device device);

}  // namespace tandem::train
