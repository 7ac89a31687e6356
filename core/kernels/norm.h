// Normalisation kernels: batch, layer, RMS and group norm.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

namespace tandem {

// y = act(norm(x)·gamma + beta + residual) over all axes but the last; act is relu or the identity.
// Statistics and parameters are f32 (f64 for f64 x). Absent tensors: residual (none), gamma (ones), beta
// (zeros).
struct BatchNormForward {
  Tensor x, residual, gamma, beta;  // [.., C], [.., C], [C], [C]
  Tensor y;                         // [.., C]
  Tensor mean, rstd;                // [C], outputs
  Tensor mask;  // u8, one bit an element (padded up to whole bytes), written when relu; bit set: passes
  Tensor running_mean, running_var;  // [C] or absent; read; may be next_mean and next_var themselves
  // [2,C] or absent: Σ x and Σ x², as conv2d_with_sums returns them; batch_norm_train then reads x once.
  Tensor sums;
  Tensor next_mean, next_var;  // [C] or absent; (1-momentum)·running + momentum·batch, variance unbiased
  double eps = 1e-5, momentum = 0.1;
  bool relu = false;
};

struct BatchNormBackward {
  Tensor x, gamma, mean, rstd, mask;  // as saved by forward; mask absent without relu
  Tensor dy;                          // [.., C]
  Tensor dx;                          // [.., C] or absent; may be dy itself
  Tensor dresidual;                   // [.., C] or absent: the masked dy; may be dy itself
  Tensor dgamma, dbeta;               // [C] f32 or absent
  bool relu = false;
  bool frozen = false;  // the statistics were constants: dx = gamma·rstd·(masked dy)
  bool accumulate_dx = false, accumulate_dresidual = false, accumulate_dgamma = false,
       accumulate_dbeta = false;
};

// Layer norm and group norm; gamma and beta [width] or absent, mean and rstd f32 (f64 for f64 x). RMS norm is
// a layer norm without mean: x is divided by √(mean x² + eps).
struct RowNormForward {
  Tensor x, gamma, beta;
  Tensor y, mean, rstd;  // outputs; layer norm without mean: RMS norm
  double eps = 1e-5;
  Index groups = 1;  // of group norm
};

struct RowNormBackward {
  Tensor x, gamma, mean, rstd;  // as saved by forward
  Tensor dy;
  Tensor dx;             // or absent; may be dy itself
  Tensor dgamma, dbeta;  // or absent
  Index groups = 1;
};

// norm.x = residual + dropout(branch), rounded to its own type, then layer or RMS norm of norm.x. The mask of
// dropout is that of RandomKernels::dropout; p = 0: none.
struct ResidualNormForward {
  RowNormForward norm;  // norm.x is an output
  Tensor residual, branch;
  RandomKey key;
  double p = 0.0;
};

struct ResidualNormBackward {
  RowNormBackward norm;  // norm.dx, required: the gradient of norm.x through the norm, plus dsum
  Tensor dsum;           // gradient from other readers of norm.x, or absent; may be norm.dx itself
  Tensor dbranch;        // dropout(norm.dx), or absent
  RandomKey key;
  double p = 0.0;
};

struct NormKernels {
  virtual ~NormKernels() = default;

  // On a CPU y may be absent, to compute only the statistics.
  virtual void batch_norm_train(const BatchNormForward& args) = 0;
  // Normalises by args.running_mean and running_var; writes y and, if given, the mask. y may be residual
  // itself.
  virtual void batch_norm_infer(const BatchNormForward& args) = 0;
  virtual void batch_norm_backward(const BatchNormBackward& args) = 0;
  // Rows of `width` elements: x viewed [rows, width]; mean, rstd [rows].
  virtual void layer_norm(const RowNormForward& args) = 0;
  virtual void layer_norm_backward(const RowNormBackward& args) = 0;
  virtual void residual_norm(const ResidualNormForward& args) = 0;
  virtual void residual_norm_backward(const ResidualNormBackward& args) = 0;
  // x [N, …, C]; mean, rstd [N, groups].
  virtual void group_norm(const RowNormForward& args) = 0;
  virtual void group_norm_backward(const RowNormBackward& args) = 0;
};

}  // namespace tandem
