// The op structs behind random.h.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/random.h"
#include "core/random.h"

namespace tandem {

namespace ops {

struct Dropout {
  static constexpr OpInfo info{"dropout", CastRule::neutral, {.kind = OpKind::draws}};
  RandomKey key;
  double p = 0.5;
  bool locked = false;  // one mask for all slices of the outermost axis
  Result forward(Context& context, Nothing&, const Operand& in) const;
  Operand backward(const Nothing&, const Result& dy, const Needs& needs) const;
  // Draws the mask and writes masked x to y, which may be x.
  void drop(Backend& backend, const Tensor& x, const Tensor& y) const;
};

struct RandomNormal {
  static constexpr OpInfo info{"random_normal", CastRule::none, {.kind = OpKind::draws}};
  RandomKey key;
  Shape shape;
  TensorOptions options;
  double mean = 0.0, stddev = 1.0;
  Result forward(Context& context, Nothing&, const Nothing&) const;
};

struct RandomUniform {
  static constexpr OpInfo info{"random_uniform", CastRule::none, {.kind = OpKind::draws}};
  RandomKey key;
  Shape shape;
  TensorOptions options;
  double low = 0.0, high = 1.0;
  Result forward(Context& context, Nothing&, const Nothing&) const;
};

}  // namespace ops

using RandomOps = TypeList<ops::Dropout, ops::RandomNormal, ops::RandomUniform>;

}  // namespace tandem
