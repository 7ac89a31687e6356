// Softmax and log-softmax, computed in f32 with the maximum subtracted.
#pragma once

#include "autograd/op.h"

namespace tandem {

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace tandem
