// Whether gradients of 16-bit tensors are kept in f32.
#pragma once

#include <span>

#include "core/tensor.h"

namespace tandem {

// What is recorded in the scope gives 16-bit results whose gradients are f32: backward adds and hands them on
// unrounded. Values of forward are those without the scope, to the bit. Per thread, off by default; scopes
// nest, the innermost counts.
class WideGradients {
 public:
  explicit WideGradients(bool enabled);
  ~WideGradients();
  WideGradients(const WideGradients&) = delete;
  WideGradients& operator=(const WideGradients&) = delete;
  static bool enabled();

 private:
  bool outer_;
};

namespace ops {

// For backward rules whose kernels are of one type: whether f32 gradients have come to results of the 16-bit
// type `stored`, and the same values in f32, untaped, for a kernel of that type. What is absent or wider
// stays as it is.
bool are_wider(std::span<const Tensor> gradients, DType stored);
Tensor widened(const Tensor& tensor);

}  // namespace ops

}  // namespace tandem
