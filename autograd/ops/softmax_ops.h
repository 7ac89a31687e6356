// The op structs behind softmax.h.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/softmax.h"

namespace tandem {

namespace ops {

struct Softmax {
  int axis = 0;
  DType input = DType::f32;  // dtype of x and of its gradient
  static constexpr OpInfo info{"softmax", CastRule::fp32, {.kind = OpKind::normalises, .family = "softmax"}};
  using In = Operand;
  using Saved = Result;
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct LogSoftmax {
  int axis = 0;
  DType input = DType::f32;
  static constexpr OpInfo info{
      "log_softmax", CastRule::fp32, {.kind = OpKind::normalises, .family = "softmax"}};
  using In = Operand;
  using Saved = Result;
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

}  // namespace ops

using SoftmaxOps = TypeList<ops::Softmax, ops::LogSoftmax>;

}  // namespace tandem
