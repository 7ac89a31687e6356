// Attention kernels: masked softmax and additive attention.
#pragma once

#include <array>

#include "core/grad_output.h"
#include "core/op_options.h"

namespace tandem {

struct AdditiveForward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor context, weights;  // [Tq,N,C], [Tq,N,Tk], in the dtype of `in`
};

struct AdditiveBackward {
  AttentionMask mask;
  AdditiveInputs in;
  Tensor weights;
  Tensor dcontext, dweights;              // absent: zeros
  std::array<GradOutput, 6> gradients{};  // of `in`, in its order; absent: not needed
};

struct AttentionKernels {
  virtual ~AttentionKernels() = default;

  // Softmax over the last axis of x [N,…,Tq,Tk], limited to the keys visible to each query. Masked keys get 0
  // for any x.
  virtual void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) = 0;
  // dx may be dy. dy of masked keys is not read.
  virtual void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                                       const Tensor& dx) = 0;
  virtual void additive_attention(const AdditiveForward& args) = 0;
  virtual void additive_attention_backward(const AdditiveBackward& args) = 0;
};

}  // namespace tandem
