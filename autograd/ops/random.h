// Ops that draw random numbers, keyed by the active RandomScope.
#pragma once

#include "autograd/op.h"

namespace tandem {

// Zeroes each element with probability p in [0,1) and scales the rest by 1/(1-p); the identity unless
// training. The mask is regenerated in backward from its key, not stored.
Tensor dropout(const Tensor& x, double p, bool training = true);

}  // namespace tandem
