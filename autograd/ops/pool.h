// Pooling on channels-last images [N,H,W,C]; results have the dtype of x. UserError when x is not a floating
// image, the kernel or stride is below 1, the padding exceeds half the kernel, or a window is larger than the
// padded image.
#pragma once

#include "autograd/op.h"

namespace tandem {

// Output extent (H + 2·padding - kernel)/stride + 1, rounded down; padding at most half the kernel.
// Max: NaN counts as largest; the gradient goes to the first maximum of a window.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
// Windows [floor(i·H/out_height), ceil((i+1)·H/out_height)), as PyTorch's.
Tensor adaptive_avg_pool2d(const Tensor& x, Index out_height, Index out_width);
// [N,H,W,C] → [N,C].
Tensor global_avg_pool2d(const Tensor& x);

// ---- the ops. Each gradient is linear, so its own backward is the op before it.

struct MaxPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W of x
  static constexpr OpInfo info{"max_pool2d", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor where;  // see Backend::max_pool2d
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct MaxPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"max_pool2d_gradient", CastRule::neutral, {data, keep}};
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
  static constexpr OpInfo info{"max_pool2d_select", CastRule::neutral, {data, keep}};
  struct In {
    Tensor x, where;
  };
  struct Saved {
    Tensor where;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AvgPool2d {
  Pool2dOptions options;
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{"avg_pool2d", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AvgPool2dGradient {
  Pool2dOptions options;
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"avg_pool2d_gradient", CastRule::neutral};
  struct In {
    Tensor dy;
  };
  struct Saved {};
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

struct AdaptiveAvgPool2d {
  std::array<Index, 2> out{};     // H', W'
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{"adaptive_avg_pool2d", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct AdaptiveAvgPool2dGradient {
  std::array<Index, 2> out{};
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"adaptive_avg_pool2d_gradient", CastRule::neutral};
  struct In {
    Tensor dy;
  };
  struct Saved {};
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

struct GlobalAvgPool2d {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"global_avg_pool2d", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct GlobalAvgPool2dGradient {
  std::array<Index, 2> extent{};
  static constexpr OpInfo info{"global_avg_pool2d_gradient", CastRule::neutral};
  struct In {
    Tensor dy;
  };
  struct Saved {};
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

using PoolOps =
    TypeList<MaxPool2d, MaxPool2dGradient, MaxPool2dSelect, AvgPool2d, AvgPool2dGradient, AdaptiveAvgPool2d,
             AdaptiveAvgPool2dGradient, GlobalAvgPool2d, GlobalAvgPool2dGradient>;

}  // namespace tandem
