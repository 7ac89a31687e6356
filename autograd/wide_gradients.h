// Wide gradients: f32 gradients of 16-bit tensors.
#pragma once

#include <span>

#include "core/scoped_value.h"
#include "core/tensor.h"

namespace tandem {

// Ops recorded in the scope have 16-bit results with f32 gradients, which backward accumulates and passes on
// unrounded. Forward values keep their bits. Per thread, off by default; the innermost scope counts.
class WideGradients : ScopedValue<bool> {
 public:
  explicit WideGradients(bool enabled);
  static bool enabled();
};

namespace ops {

// For backward rules with kernels of one type: are_wider tells whether f32 gradients have reached results of
// the 16-bit type `stored`; the second function casts the saved values to f32, untaped. Absent or wider
// tensors are unchanged.
bool are_wider(std::span<const Tensor> gradients, DType stored);
Tensor widened(const Tensor& tensor);

}  // namespace ops

}  // namespace tandem
