// CarriedState: tensors that a micro-batch passes to the next one, such as the state of a recurrent model
// over a stream that is cut into chunks.
//
// It belongs to the position in the data: it advances on a skipped step too, a retried step starts from its
// initial state, and checkpoints hold it. An epoch begins with an empty one. It carries no gradient.
#pragma once

#include "models/state.h"

namespace tandem::tasks {

using CarriedState = models::State;

}  // namespace tandem::tasks
