// Elementwise kernels: formulas with broadcasting.
#pragma once

#include <span>

#include "core/kernels/formulas.h"
#include "core/tensor.h"

namespace tandem {

// Rotary position embedding (Su et al., "RoFormer", 2021): each pair (a, b) of the columns of a head is
// turned by the angle of its position, to (a·cos - b·sin, b·cos + a·sin).
struct Rotation {
  Tensor table;      // f32 or f64 [P,D]: the cosines of the D/2 angles of a position, then their sines
  Tensor positions;  // i64 [N,T] in [0,P), or absent: row t of [N,T] has position first + t
  Index heads = 1, steps = 1, first = 0;  // steps: T
  bool interleaved = false;               // pairs (2i, 2i+1) of a head; otherwise (i, i + D/2)
  bool inverse = false;                   // by the negative angle
};

struct ElementwiseKernels {
  virtual ~ElementwiseKernels() = default;

  // y[i] = formula(inputs[0][i], …) with NumPy broadcasting of the inputs to y's shape. y may be an input of
  // its shape and dtype.
  virtual void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs,
                         const Tensor& y, bool accumulate = false) = 0;
  // x [N,T,heads·D]. y may be x.
  virtual void rotate(const Tensor& x, const Rotation& rotation, const Tensor& y) = 0;
  // x [rows, 2F]: gates, then values; y [rows, F] = silu(gate)·value.
  virtual void swiglu(const Tensor& x, const Tensor& y) = 0;
  virtual void swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace tandem
