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

// Part of the outputs of a weight [O,I]: rows first to first + count of weight and bias.
struct OutputRange {
  Index first = 0, count = 0;
};
// linear() with that part of weight and bias only, → [...,count]. Reads the parameters where they are: their
// 16-bit working copies are used, and gradients stay wide. UserError for a range beyond O.
Tensor linear_part(const Tensor& x, const Tensor& weight, const Tensor& bias, OutputRange outputs);

}  // namespace tandem
