// Demands on a run that would end it after its first step, asked before: on the device `shapes`
// (core/shapes_backend.h), in a few milliseconds.
#pragma once

#include "config/task.h"

namespace tandem::train {

// Throws UserError, with the place in the configuration and the way out,
// - where the figure that chooses the best epoch is not defined on the split that chooses,
// - where the details that the run is to leave (Task::keeps_details) cannot be made of this data,
// - where a batch of an epoch, or one of the `parts` that it is divided into, has too few samples to train
// on.
void check_start(const config::Loaded& loaded, const tasks::DataPtr& data, Index parts);

// Reads every sample of the data; where `tells`, remarks name those that cannot be read, one a line. Throws
// UserError with their number when there are any.
void read_everything(const tasks::Data& data, bool tells);

}  // namespace tandem::train
