// Common parts of the `pointwise` kernels: a call, and evaluation of a formula for an element and a pack.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/numeric.h"
#include "core/kernels/formulas.h"

namespace tandem::cuda {

inline constexpr int kMaxOperands = 3;

struct PointwiseCall {
  FormulaId formula;
  Scalars scalars;
  std::span<const Tensor> inputs;
  const Tensor& y;
  bool accumulate;
  cudaStream_t stream;
};

// Handles any types and shapes that broadcast to y's shape.
void run_broadcast(const PointwiseCall& call);

// Converts constants on the host, like the CPU backend.
template <class C>
formulas::Constants<C> constants_of(const Scalars& scalars) {
  formulas::Constants<C> c;
  for (int i = 0; i < 4; ++i) c.value[i] = static_cast<C>(scalars[i]);
  return c;
}

template <class F, class C>
__device__ __forceinline__ C evaluate(const formulas::Constants<C>& c, const C* x) {
  if constexpr (F::arity == 1) {
    return F::eval(c, x[0]);
  } else if constexpr (F::arity == 2) {
    return F::eval(c, x[0], x[1]);
  } else {
    return F::eval(c, x[0], x[1], x[2]);
  }
}

// Evaluates packs of the operands into a pack of y.
template <class F, class C, class Values>
__device__ __forceinline__ void evaluate_pack(const formulas::Constants<C>& c, const Values (&in)[F::arity],
                                              Values* y, bool accumulate) {
  Values out;
  if (accumulate) out = *y;
#pragma unroll
  for (int i = 0; i < Values::kSize; ++i) {
    C operands[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) operands[k] = load(&in[k].value[i]);
    C result = evaluate<F>(c, operands);
    if (accumulate) result += load(&out.value[i]);
    store(&out.value[i], result);
  }
  *y = out;
}

}  // namespace tandem::cuda
