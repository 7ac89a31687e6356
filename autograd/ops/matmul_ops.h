// The op structs behind matmul.h.
#pragma once

#include <optional>

#include "autograd/ops/matmul.h"
#include "autograd/ops/parts.h"

namespace tandem {

namespace ops {

struct Matmul {
  bool transpose_a = false, transpose_b = false;
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"matmul", CastRule::lower, {.kind = OpKind::product, .products = products}};
  struct In {
    Tensor a, b;
  };
  Result forward(Context&, In&, const In&) const;
  In backward(const In&, const Result& dy, const Needs&) const;
};

struct Linear {
  std::optional<OutputRange> outputs{};  // absent: all
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{
      "linear", CastRule::lower, {.kind = OpKind::product, .products = products, .weight = 1}};
  struct In {
    Tensor x, weight, bias;
  };
  struct Saved {
    Tensor x, weight;
  };
  Result forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Result& dy, const Needs&) const;
};

// left [...,P], right [...,Q], the same leading axes → [P,Q] = Σ leftᵀ·right in f32 (f64 for f64): the
// gradient of a weight shared by all rows.
struct SumOfOuterProducts {
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{
      "sum_of_outer_products", CastRule::lower, {.kind = OpKind::product, .products = products}};
  struct In {
    Tensor left, right;
  };
  Result forward(Context&, In&, const In&) const;
  In backward(const In&, const Result& dy, const Needs&) const;
};

// x [...,C] → [C] in f32 (f64 for f64): the sum over all axes but the last, the gradient of a bias.
struct BiasGradient {
  static constexpr OpInfo info{
      "bias_gradient", CastRule::none, {.kind = OpKind::reduces, .family = "matmul"}};
  Result forward(Context&, Operand&, const Operand&) const;
  Operand backward(const Operand&, const Result& dy, const Needs&) const;
};

}  // namespace ops

Tensor sum_of_outer_products(const Tensor& left, const Tensor& right, const GradOutput* sink = nullptr);
Tensor bias_gradient(const Tensor& x, const GradOutput* sink = nullptr);

}  // namespace tandem
