// The op structs behind conv.h.
#pragma once

#include "autograd/ops/conv.h"
#include "autograd/ops/parts.h"

namespace tandem {

namespace ops {

struct ConvInputs {
  Tensor x, filter, bias;
};
struct ConvSaved {
  Tensor x, filter;
};

struct Conv2d {
  Conv2dOptions options;
  CallResult sums{};
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{
      "conv2d",
      CastRule::lower,
      {.kind = OpKind::product, .family = "conv", .products = products, .weight = 1}};
  Result forward(Context&, ConvSaved&, const ConvInputs&) const;
  ConvInputs backward(const ConvSaved&, const Result& dy, const Needs&) const;
};

// dy [N,H',W',O], filter [O,KH,KW,C/groups] → dx [N,H,W,C].
struct Conv2dInputGradient {
  Conv2dOptions options;
  std::array<Index, 2> extent{};  // H, W
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"conv2d_input_gradient",
                               CastRule::lower,
                               {.kind = OpKind::product, .family = "conv", .products = products}};
  struct In {
    Tensor dy, filter;
  };
  InputGradient forward(Context&, In&, const In&) const;
  In backward(const In&, const InputGradient& ddx, const Needs&) const;
};

// x [N,H,W,C], dy [N,H',W',O] → dfilter [O,KH,KW,C/groups] in f32 (f64 for f64).
struct Conv2dFilterGradient {
  Conv2dOptions options;
  std::array<Index, 2> kernel{};  // KH, KW
  bool rounded = false;           // to the type of x and dy; else f32 (f64)
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"conv2d_filter_gradient",
                               CastRule::lower,
                               {.kind = OpKind::product, .family = "conv", .products = products}};
  struct In {
    Tensor x, dy;
  };
  struct Out {
    Tensor dfilter;
  };
  Out forward(Context&, In&, const In&) const;
  In backward(const In&, const Out& ddfilter, const Needs&) const;
};

struct ConvTranspose2d {
  Conv2dOptions options;
  std::array<Index, 2> output_padding{};
  static constexpr OpInfo info{
      "conv_transpose2d",
      CastRule::lower,
      {.kind = OpKind::product, .family = "conv", .products = Conv2dInputGradient::products, .weight = 1}};
  Result forward(Context&, ConvSaved&, const ConvInputs&) const;
  ConvInputs backward(const ConvSaved&, const Result& dy, const Needs&) const;
};

}  // namespace ops

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& filter, std::array<Index, 2> extent,
                             const Conv2dOptions& options, const GradOutput* sink = nullptr);
Tensor conv2d_filter_gradient(const Tensor& x, const Tensor& dy, std::array<Index, 2> kernel,
                              const Conv2dOptions& options, const GradOutput* sink = nullptr,
                              bool rounded = false);

}  // namespace tandem
