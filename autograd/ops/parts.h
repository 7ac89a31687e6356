// The tensors that op structs of several families take, keep and give.
#pragma once

#include "core/tensor.h"

namespace tandem::ops {

struct Operand {
  Tensor x;
};
struct Result {
  Tensor y;
};
struct Nothing {};

}  // namespace tandem::ops
