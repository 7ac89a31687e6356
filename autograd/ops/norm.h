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

// Type of a norm's result under mixed precision.
enum class NormResult : std::uint8_t {
  wide,         // f32, by the cast rule
  for_product,  // the 16-bit type of the product that reads it; a plan or a list decides otherwise
};

// Over the last `axes` axes; gamma and beta have their shape, or are absent.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int axes = 1, double eps = 1e-5,
                  NormResult result = NormResult::wide);
// x·gamma/√(mean x² + eps) over the last axis (Zhang and Sennrich 2019), rounded once; gamma [C] or absent.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps = 1e-5,
                NormResult result = NormResult::wide);

struct ResidualNormOptions {
  double eps = 1e-5;
  bool rms = false;      // RMS norm, without beta
  double dropout = 0.0;  // probability for the branch, in [0,1)
  bool training = true;  // without: no dropout
  bool wide = false;     // `normed` has the type of `sum` instead
};

struct ResidualNormResult {
  Tensor sum, normed;
};

// sum = x + dropout(branch) in the type of x (f64 if the branch is), and the layer or RMS norm of sum over
// the last axis in the type of the branch, in one pass. Mixed precision leaves x as it is: an f32 residual
// stream stays f32, while the branch and `normed` have the 16-bit type of the products around them. branch
// like x; gamma, beta [C] or absent. The mask is that of dropout(branch, p).
ResidualNormResult residual_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                 const Tensor& beta = {}, const ResidualNormOptions& options = {});
// x [N,…,C]; gamma, beta [C] or absent; `groups` divides C.
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps = 1e-5);

}  // namespace tandem
