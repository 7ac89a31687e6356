// Activation layers; each is the op of the same name (autograd/ops/elementwise.h, softmax.h).
#pragma once

#include "autograd/ops/elementwise.h"
#include "autograd/ops/softmax.h"
#include "nn/module.h"

namespace tandem::nn {

class Relu final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

class LeakyRelu final : public Module {
 public:
  explicit LeakyRelu(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, negative_slope_); }
  std::string describe() const override;

 private:
  double negative_slope_;
};

class Elu final : public Module {
 public:
  explicit Elu(double alpha = 1.0) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_); }
  std::string describe() const override;

 private:
  double alpha_;
};

class Gelu final : public Module {
 public:
  explicit Gelu(GeluForm form = GeluForm::erf) : form_(form) {}
  Tensor forward(const Tensor& x) override { return gelu(x, form_); }
  std::string describe() const override { return form_ == GeluForm::tanh ? "Gelu(tanh)" : "Gelu"; }

 private:
  GeluForm form_;
};

class Silu final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};

class Softplus final : public Module {
 public:
  explicit Softplus(double beta = 1.0, double threshold = 20.0) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }
  std::string describe() const override;

 private:
  double beta_, threshold_;
};

class Hardswish final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};

class Hardsigmoid final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};

class Relu6 final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu6(x); }
};

class Sigmoid final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class Tanh final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

// One slope for all channels, or one per channel. Parameter: weight [1] or [C].
class Prelu final : public Module {
 public:
  explicit Prelu(Index channels = 1, double start = 0.25);
  Tensor forward(const Tensor& x) override { return prelu(x, slope_.tensor()); }
  std::string describe() const override;

 private:
  Parameter slope_;
};

class Softmax final : public Module {
 public:
  explicit Softmax(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return softmax(x, axis_); }
  std::string describe() const override;

 private:
  int axis_;
};

class LogSoftmax final : public Module {
 public:
  explicit LogSoftmax(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, axis_); }
  std::string describe() const override;

 private:
  int axis_;
};

}  // namespace tandem::nn
