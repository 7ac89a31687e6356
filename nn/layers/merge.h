// Layers of several inputs: call them with a TensorList.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

// The sum of its inputs, with broadcasting; at least two.
class Add final : public Module {
 public:
  explicit Add(bool relu = false) : relu_(relu) {}
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  std::string describe() const override { return relu_ ? "Add(relu)" : "Add"; }

 private:
  bool relu_;
};

// The inputs one after the other along an axis; at least two.
class Concat final : public Module {
 public:
  explicit Concat(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  std::string describe() const override;

 private:
  int axis_;
};

}  // namespace tandem::nn
