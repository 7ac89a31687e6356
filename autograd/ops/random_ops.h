// The op struct of dropout, which fused ops share.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/random.h"
#include "core/random.h"

namespace tandem::ops {

struct Dropout {
  static constexpr OpInfo info{"dropout", CastRule::neutral, {.kind = OpKind::draws}};
  RandomKey key;
  double p = 0.5;
  bool locked = false;  // one mask for all slices of the outermost axis
  Result forward(Context& context, Nothing&, const Operand& in) const;
  Operand backward(const Nothing&, const Result& dy, const Needs& needs) const;
  // Draws the mask and writes masked x to y, which may be x. A mask is a function of the key and the position
  // in memory, so one key gives every slice the same mask.
  void drop(Backend& backend, const Tensor& x, const Tensor& y) const;
};

// Throws UserError unless p lies in [0,1).
void require_dropout(const char* op, double p);

}  // namespace tandem::ops
