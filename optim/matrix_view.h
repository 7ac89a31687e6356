// Weights of several axes as matrices: the first axis beside all others, the outputs of a linear layer or of
// filters [O,KH,KW,I] beside their inputs.
#pragma once

#include "core/tensor.h"

namespace tandem::optim {

inline Shape matrix_shape(const Shape& shape) {
  return {shape[0], shape[0] == 0 ? 0 : shape.numel() / shape[0]};
}
inline Tensor as_matrix(const Tensor& weight) { return weight.viewed(matrix_shape(weight.shape())); }

}  // namespace tandem::optim
