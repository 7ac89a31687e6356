// Ops that draw random numbers, keyed by the active RandomScope: the same call of the same step draws the
// same numbers. Where the scope has a counter in device memory the step is read from there when the numbers
// are made, so that recorded work draws new ones each time.
#pragma once

#include "autograd/op.h"

namespace tandem {

// Zeroes each element with probability p in [0,1) and scales the rest by 1/(1-p); the identity unless
// training. The mask is regenerated in backward from its key, not stored.
Tensor dropout(const Tensor& x, double p, bool training = true);
// The same with one mask for all slices of the outermost axis: of x [T,N,C] an element of [N,C] is dropped at
// every step or at none (Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent
// neural networks", NeurIPS 2016). UserError for a scalar.
Tensor locked_dropout(const Tensor& x, double p, bool training = true);

struct NormalOptions {
  double mean = 0.0, stddev = 1.0;
  DType dtype = DType::f32;
  Device device = {};
};

// Independent numbers of a normal distribution (Box and Muller 1958), or uniform in [low, high): what is
// drawn for an element depends on its position in memory, not on the shape, and is rounded once to the dtype;
// in 16 bits that may give `high` itself. Mixed precision does not look at them, and they have no gradient.
// UserError unless the dtype is floating, the parameters are finite, stddev >= 0 and low <= high, and there
// are at most 2^34 elements.
Tensor random_normal(const Shape& shape, const NormalOptions& options = {});
Tensor random_uniform(const Shape& shape, double low = 0.0, double high = 1.0,
                      const TensorOptions& options = {});

}  // namespace tandem
