#include "autograd/wide_gradients.h"

#include <algorithm>

#include "core/backend.h"

namespace tandem {

namespace {
thread_local bool wide_gradients = false;
}  // namespace

WideGradients::WideGradients(bool enabled) : ScopedValue(wide_gradients, enabled) {}
bool WideGradients::enabled() { return wide_gradients; }

namespace ops {

bool are_wider(std::span<const Tensor> gradients, DType stored) {
  return is_16bit(stored) && std::ranges::any_of(gradients, [](const Tensor& gradient) {
           return gradient.defined() && gradient.dtype() == DType::f32;
         });
}

Tensor widened(const Tensor& tensor) {
  if (!tensor.defined() || !is_16bit(tensor.dtype())) return tensor;
  const Tensor wide = Tensor::empty(tensor.shape(), {DType::f32, tensor.device()});
  backend_for(tensor.device()).cast(tensor, wide);
  return wide;
}

}  // namespace ops

}  // namespace tandem
