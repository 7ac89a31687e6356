// Random ops, keyed by the active RandomScope: the same call in the same step draws the same numbers. If the
// scope has a counter in device memory, the step is read from it when the numbers are generated, so recorded
// work draws new ones in each replay.
#pragma once

#include "autograd/op.h"
#include "core/random.h"

namespace tandem {

// Zeroes each element with probability p in [0,1) and scales the rest by 1/(1-p); identity unless training.
// Backward regenerates the mask from its key.
Tensor dropout(const Tensor& x, double p, bool training = true);
// With the mask of `key`.
Tensor dropout(const Tensor& x, double p, const RandomKey& key);
// The same with one mask for all slices of the outermost axis: for x [T,N,C] an element of [N,C] is dropped
// at all steps or at none (Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent
// neural networks", NeurIPS 2016). UserError for a scalar.
Tensor locked_dropout(const Tensor& x, double p, bool training = true);

struct NormalOptions {
  double mean = 0.0, stddev = 1.0;
  DType dtype = DType::f32;
  Device device = {};
};

// Independent numbers of a normal distribution (Box and Muller 1958), or uniform in [low, high). A number
// depends on the element's position in memory, not on the shape, and is rounded once to the dtype; in 16 bits
// this may give `high` itself. Mixed precision ignores these ops; they have no gradient. UserError unless the
// dtype is floating, the parameters are finite, stddev >= 0 and low <= high, and there are at most 2^34
// elements.
Tensor random_normal(const Shape& shape, const NormalOptions& options = {});
Tensor random_uniform(const Shape& shape, double low = 0.0, double high = 1.0,
                      const TensorOptions& options = {});

}  // namespace tandem
