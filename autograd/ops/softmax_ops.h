// The op structs behind softmax.h.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/softmax.h"

namespace tandem {

namespace ops {

template <bool kLog>
struct SoftmaxOp {
  int axis = 0;
  DType input = DType::f32;  // dtype of x and of its gradient
  static constexpr OpInfo info{
      kLog ? "log_softmax" : "softmax", CastRule::fp32, {.kind = OpKind::normalises, .family = "softmax"}};
  Result forward(Context&, Result&, const Operand&) const;
  Operand backward(const Result&, const Result& dy, const Needs&) const;
};
using Softmax = SoftmaxOp<false>;
using LogSoftmax = SoftmaxOp<true>;

}  // namespace ops

}  // namespace tandem
