// Softmax and its logarithm, computed in f32 with the maximum subtracted.
#pragma once

#include "autograd/op.h"

namespace tandem {

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

// ---- The ops
// ----------------------------------------------------------------------------------------------------

struct Softmax {
  int axis = 0;
  DType input = DType::f32;  // of x: the gradient is written so
  static constexpr OpInfo info{"softmax", CastRule::fp32};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor y;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct LogSoftmax {
  int axis = 0;
  DType input = DType::f32;
  static constexpr OpInfo info{"log_softmax", CastRule::fp32};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor y;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

using SoftmaxOps = TypeList<Softmax, LogSoftmax>;

}  // namespace tandem
