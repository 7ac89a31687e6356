// Layers with several inputs, called with a TensorList, or with several outputs.
#pragma once

#include <vector>

#include "nn/module.h"

namespace tandem::nn {

// Sum of at least two inputs, with broadcasting.
class Add final : public Module {
 public:
  explicit Add(bool relu = false) : relu_(relu) {}
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  std::string describe() const override { return relu_ ? "Add(relu)" : "Add"; }

 private:
  bool relu_;
};

// Concatenation of at least two inputs along an axis.
class Concat final : public Module {
 public:
  explicit Concat(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  std::string describe() const override;

 private:
  int axis_;
};

// Pieces of the given extents along an axis, which must sum to its extent; get them from all_outputs.
class Split final : public Module {
 public:
  explicit Split(std::vector<Index> sizes, int axis = -1) : sizes_(std::move(sizes)), axis_(axis) {}

  TensorList forward_outputs(const TensorList& xs) override;
  std::string describe() const override;

 private:
  std::vector<Index> sizes_;
  int axis_;
};

}  // namespace tandem::nn
