// Embedding table.
#pragma once

#include <optional>

#include "nn/module.h"

namespace tandem::nn {

// Indices [...] (i64 or i32) → [...,D]. Parameter: weight [V,D], initialised normal(0, 1) as in PyTorch; the
// row `padding_index` starts at 0 and receives no gradient.
class Embedding final : public Module {
 public:
  Embedding(Index count, Index dim, std::optional<Index> padding_index = std::nullopt);

  Tensor forward(const Tensor& index) override;
  std::string describe() const override;

  const Parameter& weight() const { return weight_; }  // share it with a Linear to tie the weights

 private:
  std::optional<Index> padding_index_;
  Parameter weight_;
};

}  // namespace tandem::nn
