// The op structs behind pool.h. Each gradient is linear; its own backward is the preceding op.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/pool.h"

namespace tandem {

namespace ops {

struct Positions {
  Tensor where;  // see PoolKernels::max_pool2d
};

struct MaxPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W of x
  static constexpr OpInfo info{
      "max_pool2d", CastRule::neutral, {.kind = OpKind::selects, .family = "pool", .keeps_type = true}};
  Result forward(Context&, Positions&, const Operand&) const;
  Operand backward(const Positions&, const Result& dy, const Needs&) const;
};

struct MaxPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "max_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}, {data, keep}};
  struct In {
    Tensor dy, where;
  };
  InputGradient forward(Context&, Positions&, const In&) const;
  In backward(const Positions&, const InputGradient& ddx, const Needs&) const;
};

// y = the elements of x at `where`.
struct MaxPool2dSelect {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"max_pool2d_select",
                               CastRule::neutral,
                               {.kind = OpKind::selects, .family = "pool", .keeps_type = true},
                               {data, keep}};
  struct In {
    Tensor x, where;
  };
  Result forward(Context&, Positions&, const In&) const;
  In backward(const Positions&, const Result& dy, const Needs&) const;
};

struct AvgPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{"avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct AvgPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  InputGradient forward(Context&, Nothing&, const OutputGradient&) const;
  OutputGradient backward(const Nothing&, const InputGradient& ddx, const Needs&) const;
};

struct AdaptiveAvgPool2d {
  std::array<Index, 2> out{};     // H', W'
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{
      "adaptive_avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct AdaptiveAvgPool2dGradient {
  std::array<Index, 2> out{};
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "adaptive_avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  InputGradient forward(Context&, Nothing&, const OutputGradient&) const;
  OutputGradient backward(const Nothing&, const InputGradient& ddx, const Needs&) const;
};

struct GlobalAvgPool2d {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "global_avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct GlobalAvgPool2dGradient {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "global_avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  InputGradient forward(Context&, Nothing&, const OutputGradient&) const;
  OutputGradient backward(const Nothing&, const InputGradient& ddx, const Needs&) const;
};

}  // namespace ops

}  // namespace tandem
