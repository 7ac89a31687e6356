// Matrix views of weights: the first axis (outputs of a linear layer or of filters [O,KH,KW,I]) beside all
// others (the inputs).
#pragma once

#include "core/tensor.h"

namespace tandem::optim {

inline Shape matrix_shape(const Shape& shape) {
  return {shape[0], shape[0] == 0 ? 0 : shape.numel() / shape[0]};
}
inline Tensor as_matrix(const Tensor& weight) { return weight.viewed(matrix_shape(weight.shape())); }

}  // namespace tandem::optim
