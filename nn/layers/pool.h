// Pooling on channels-last images.
#pragma once

#include "autograd/ops/pool.h"
#include "nn/module.h"

namespace tandem::nn {

// [N,H,W,C] → [N,H',W',C].
class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}
  explicit MaxPool2d(Index kernel)
      : MaxPool2d(Pool2dOptions{.kernel = {kernel, kernel}, .stride = {kernel, kernel}}) {}

  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }
  std::string describe() const override;

 private:
  Pool2dOptions options_;
};

class AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(const Pool2dOptions& options) : options_(options) {}
  explicit AvgPool2d(Index kernel)
      : AvgPool2d(Pool2dOptions{.kernel = {kernel, kernel}, .stride = {kernel, kernel}}) {}

  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options_); }
  std::string describe() const override;

 private:
  Pool2dOptions options_;
};

// [N,H,W,C] → [N,height,width,C].
class AdaptiveAvgPool2d final : public Module {
 public:
  AdaptiveAvgPool2d(Index height, Index width);

  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, height_, width_); }
  std::string describe() const override;

 private:
  Index height_, width_;
};

// [N,H,W,C] → [N,C].
class GlobalAvgPool2d final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return global_avg_pool2d(x); }
};

}  // namespace tandem::nn
