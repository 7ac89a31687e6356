// The op structs behind pairs.h.
#pragma once

#include "autograd/ops/pairs.h"
#include "autograd/ops/parts.h"

namespace tandem::ops {

struct Rotary {
  static constexpr OpInfo info{
      "rotary", CastRule::neutral, {.kind = OpKind::elementwise}, {data, keep, keep}};
  struct In {
    Tensor x, table, positions;
  };
  struct Saved {
    Tensor table, positions;
  };
  Index heads = 1, first = 0;
  bool interleaved = false, inverse = false;
  Result forward(Context& context, Saved& saved, const In& in) const;
  // The turn back.
  In backward(const Saved& saved, const Result& dy, const Needs& needs) const;
  void turn(Backend& backend, const In& in, const Tensor& y) const;
};

struct Swiglu {
  static constexpr OpInfo info{"swiglu", CastRule::neutral, {.kind = OpKind::elementwise}};
  Result forward(Context& context, Operand& saved, const Operand& in) const;
  Operand backward(const Operand& saved, const Result& dy, const Needs& needs) const;
  static Result composed(const Swiglu& op, const Operand& in);
};

}  // namespace tandem::ops
