// CarriedState: the tensors that a micro-batch passes on to the next one, beside the parameters: the state of
// a model over a stream that is cut into pieces.
//
// It belongs to the position in the data: it advances with it on a skipped step too, a step that is done
// again starts from what it began with, and a checkpoint holds it. An epoch begins with an empty one. No
// gradient flows back through it.
#pragma once

#include "models/state.h"

namespace tandem::tasks {

using CarriedState = models::State;

}  // namespace tandem::tasks
