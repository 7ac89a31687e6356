// Layer and group normalisation, without running state: training and evaluation are the same.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;  // with affine, in layer norm
};

// Normalises over the last axes, which must have the extents of `shape`. Parameters: weight, bias of that
// shape.
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(const Shape& shape, const NormOptions& options = {});
  explicit LayerNorm(Index features, const NormOptions& options = {}) : LayerNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Shape shape_;
  NormOptions options_;
  Parameter gamma_, beta_;
};

// Root mean square norm over the last axis (Zhang and Sennrich 2019): x/√(mean of x² + eps)·weight.
// Parameter: weight.
class RmsNorm final : public Module {
 public:
  explicit RmsNorm(Index features, double eps = 1e-5);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Index features_;
  double eps_;
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
