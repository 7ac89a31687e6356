// Where a kernel writes a gradient, and whether to add to what it holds.
#pragma once

#include "core/tensor.h"

namespace tandem {

struct GradOutput {
  Tensor tensor;
  bool accumulate = false;
  // Of a table [V,E] whose rows are marked: u8 [V], for a kernel that writes rows only (Backend::mark_rows).
  Tensor marks{};
};

}  // namespace tandem
