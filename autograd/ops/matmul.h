// Matrix products. All accumulate in f32 (f64 for f64). Throws UserError, naming the shapes, when ranks,
// inner extents or batch axes do not fit, or an operand is not floating.
#pragma once

#include "autograd/op.h"

namespace tandem {

// [M,K]·[K,N] → [M,N]; leading batch axes must be equal or absent on one side. A flag marks an operand that
// is stored transposed ([K,M], [N,K]).
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
// [B,M,K]·[B,K,N] → [B,M,N]; UserError unless both are rank 3.
Tensor bmm(const Tensor& a, const Tensor& b);
// x [...,I] · weight [O,I] transposed + bias [O] (or absent) → [...,O].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// Rows first to first + count of a weight [O,I] and its bias [O].
struct OutputRange {
  Index first = 0, count = 0;
};
// linear() with these rows of weight and bias only, → [...,count]. Copies no weights: mixed precision reads
// the 16-bit working copies. Gradients have the shape of the whole weight, zero in other rows, and are FP32
// (f64 for f64). Throws UserError for rows outside of O.
Tensor linear_outputs(const Tensor& x, const Tensor& weight, const Tensor& bias, OutputRange outputs);

}  // namespace tandem
