// Checks before a run starts, for errors that would otherwise appear after its first steps. They use the
// device `shapes` (core/shapes_backend.h) and take a few milliseconds.
#pragma once

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

}  // namespace tandem::train
