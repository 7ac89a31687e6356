// The op structs behind random.h.
#pragma once

#include "autograd/ops/random.h"

namespace tandem {

namespace ops {

struct Dropout {
  static constexpr OpInfo info{"dropout", CastRule::neutral};
  RandomKey key;
  double p = 0.5;
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved&, const In& in) const;
  In backward(const Saved&, const Out& dy, const Needs& needs) const;
};

}  // namespace ops

using RandomOps = TypeList<ops::Dropout>;

}  // namespace tandem
