// Layer and group normalisation, without running state: training and evaluation are the same.
#pragma once

#include "autograd/ops/norm.h"
#include "nn/module.h"

namespace tandem::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;                      // with affine, in layer norm
  NormResult result = NormResult::wide;  // of layer norm
};

// A norm over the last axis, which can take the sum before it along.
class FeatureNorm : public Module {
 public:
  using Module::operator();
  // residual_norm with the norm's parameters; its other options are the caller's.
  ResidualNormResult operator()(const Tensor& x, const Tensor& branch, const ResidualNormOptions& options) {
    return observed([&] { return of_sum(x, branch, options); });
  }

 private:
  virtual ResidualNormResult of_sum(const Tensor& x, const Tensor& branch, ResidualNormOptions options) = 0;
};

// Normalises over the last axes, which must have the extents of `shape`. Parameters: weight, bias of that
// shape.
class LayerNorm final : public FeatureNorm {
 public:
  explicit LayerNorm(const Shape& shape, const NormOptions& options = {});
  explicit LayerNorm(Index features, const NormOptions& options = {}) : LayerNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  ResidualNormResult of_sum(const Tensor& x, const Tensor& branch, ResidualNormOptions options) override;
  void require_fits(const Tensor& x) const;

  Shape shape_;
  NormOptions options_;
  Parameter gamma_, beta_;
};

// Root mean square norm over the last axis (Zhang and Sennrich 2019): x/√(mean of x² + eps)·weight.
// Parameter: weight.
class RmsNorm final : public FeatureNorm {
 public:
  explicit RmsNorm(Index features, double eps = 1e-5, NormResult result = NormResult::wide);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  ResidualNormResult of_sum(const Tensor& x, const Tensor& branch, ResidualNormOptions options) override;

  Index features_;
  double eps_;
  NormResult result_;
  Parameter weight_;
};

// [N,…,C], statistics per sample over groups of channels. Parameters: weight, bias [C].
class GroupNorm final : public Module {
 public:
  GroupNorm(Index groups, Index channels, const NormOptions& options = {});

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Index groups_, channels_;
  NormOptions options_;
  Parameter gamma_, beta_;
};

}  // namespace tandem::nn
