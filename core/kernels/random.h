// Random kernels: element i uses word i%4 of Philox block i/4.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

namespace tandem {

struct RandomKernels {
  virtual ~RandomKernels() = default;

  virtual void random_uniform(const RandomKey& key, const Tensor& y, double low, double high) = 0;
  virtual void random_normal(const RandomKey& key, const Tensor& y, double mean, double stddev) = 0;
  // y = x · keep / (1-p); the same key gives the same mask, whatever the dtype. y may be x.
  virtual void dropout(const Tensor& x, const RandomKey& key, double p, const Tensor& y) = 0;
};

}  // namespace tandem
