// The state of a recurrent model between the pieces of a stream.
#pragma once

#include "autograd/ops/rnn.h"
#include "tasks/task.h"

namespace tandem::tasks {

// As the piece before left it; absent where a stream begins.
RnnState carried_state(const LossContext& context);
// For the piece after. Streams whose state is not finite begin anew there, with zeros: one overflow would
// otherwise spoil everything behind it.
void carry_on(const LossContext& context, const RnnState& state);

}  // namespace tandem::tasks
