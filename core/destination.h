// Where a kernel writes a gradient, and whether to add to what it holds.
#pragma once

#include "core/tensor.h"

namespace tandem {

struct Destination {
  Tensor tensor;
  bool accumulate = false;
};

}  // namespace tandem
