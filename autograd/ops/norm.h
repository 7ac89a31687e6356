// Normalisation. Parameters and statistics are f32 (f64 for f64 inputs) for any dtype of x.
#pragma once

#include "autograd/op.h"

namespace tandem {

// Running statistics of a batch-norm layer. Training reads `mean` and `var` and writes `next_mean` and
// `next_var`, which become live when the step commits (optim/step.h).
struct BatchNormStatistics {
  Tensor mean, var;            // [C], live; read by evaluation
  Tensor next_mean, next_var;  // [C], written by training
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // weight of the new batch in the running statistics
  bool relu = false;      // y = max(0, …)
  Tensor sums;            // of x, from conv2d, or absent; training only
};

// Batch statistics over all axes but the last (two-pass or Welford). x [...,C]; gamma, beta [C] or absent;
// residual like x or absent: y = act(norm(x)·gamma + beta + residual). Throws UserError for a single value
// per channel.
Tensor batch_norm_train(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormStatistics& statistics, const BatchNormOptions& options = {},
                        const Tensor& residual = {});
// Uses the live statistics.
Tensor batch_norm_infer(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormStatistics& statistics, const BatchNormOptions& options = {},
                        const Tensor& residual = {});

// Over the last `axes` axes; gamma and beta have their shape, or are absent.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int axes = 1, double eps = 1e-5);
// x [N,…,C]; gamma, beta [C] or absent; `groups` divides C.
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps = 1e-5);

}  // namespace tandem
