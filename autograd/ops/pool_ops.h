// The op structs behind pool.h. Each gradient is linear; its own backward is the preceding op.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/pool.h"

namespace tandem {

namespace ops {

struct MaxPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W of x
  static constexpr OpInfo info{
      "max_pool2d", CastRule::neutral, {.kind = OpKind::selects, .family = "pool", .keeps_type = true}};
  using In = Operand;
  struct Saved {
    Tensor where;  // see PoolKernels::max_pool2d
  };
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct MaxPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "max_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}, {data, keep}};
  struct In {
    Tensor dy, where;
  };
  struct Saved {
    Tensor where;
  };
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
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
  struct Saved {
    Tensor where;
  };
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AvgPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{"avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  using In = Operand;
  using Saved = Nothing;
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AvgPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  struct In {
    Tensor dy;
  };
  using Saved = Nothing;
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

struct AdaptiveAvgPool2d {
  std::array<Index, 2> out{};     // H', W'
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{
      "adaptive_avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  using In = Operand;
  using Saved = Nothing;
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AdaptiveAvgPool2dGradient {
  std::array<Index, 2> out{};
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "adaptive_avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  struct In {
    Tensor dy;
  };
  using Saved = Nothing;
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

struct GlobalAvgPool2d {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "global_avg_pool2d", CastRule::neutral, {.kind = OpKind::reduces, .family = "pool"}};
  using In = Operand;
  using Saved = Nothing;
  using Out = Result;
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct GlobalAvgPool2dGradient {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{
      "global_avg_pool2d_gradient", CastRule::neutral, {.kind = OpKind::computes, .family = "pool"}};
  struct In {
    Tensor dy;
  };
  using Saved = Nothing;
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

}  // namespace ops

using PoolOps = TypeList<ops::MaxPool2d, ops::MaxPool2dGradient, ops::MaxPool2dSelect, ops::AvgPool2d,
                         ops::AvgPool2dGradient, ops::AdaptiveAvgPool2d, ops::AdaptiveAvgPool2dGradient,
                         ops::GlobalAvgPool2d, ops::GlobalAvgPool2dGradient>;

}  // namespace tandem
