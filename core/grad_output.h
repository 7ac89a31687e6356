// Destination of a gradient: written, or added to the existing values.
#pragma once

#include "core/tensor.h"

namespace tandem {

struct GradOutput {
  Tensor tensor;
  bool accumulate = false;
  // Row marks of a table [V,E]: u8 [V], for a kernel that writes rows only (Backend::mark_rows).
  Tensor marks{};
};

}  // namespace tandem
