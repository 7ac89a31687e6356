// Split layer, with several outputs.
#pragma once

#include <vector>

#include "nn/module.h"

namespace tandem::nn {

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
