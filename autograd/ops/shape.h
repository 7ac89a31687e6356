// Ops that move elements without arithmetic, for any dtype. Reshapes and ranges of the outermost axis (slice,
// split, unbind with step 1) are views that share the storage; the others copy. All are differentiable any
// number of times.
//
// Errors: UserError "[op] …" for an axis out of range, extents that do not fit, or more than kMaxRank axes.
#pragma once

#include <vector>

#include "autograd/op.h"

namespace tandem {

// One extent may be -1: inferred.
Tensor reshape(const Tensor& x, std::vector<Index> extents);
inline Tensor reshape(const Tensor& x, const Shape& shape) {
  return reshape(x, std::vector<Index>(shape.begin(), shape.end()));
}
inline Tensor reshape(const Tensor& x, std::initializer_list<Index> extents) {
  return reshape(x, std::vector<Index>(extents));
}
// [N,…] → [N,rest].
Tensor flatten(const Tensor& x, int first_axis = 1);
Tensor permute(const Tensor& x, const std::vector<int>& order);  // axis i of the result is axis order[i] of x
Tensor transpose(const Tensor& x, int a, int b);
// Tensors that agree on every other axis; the result has the widest dtype among them.
Tensor concat(const TensorList& xs, int axis);
// Tensors of one shape, along a new axis.
Tensor stack(const TensorList& xs, int axis);
// Pieces of the given extents along axis; they must add up.
TensorList split(const Tensor& x, const std::vector<Index>& extents, int axis);
// The slices along axis 0, without that axis.
TensorList unbind(const Tensor& x);
// Elements first, first+step, … below last along axis; negative first and last count from the end.
Tensor slice(const Tensor& x, int axis, Index first, Index last, Index step = 1);
// `before` and `after` have an entry per axis.
Tensor pad(const Tensor& x, const std::vector<Index>& before, const std::vector<Index>& after,
           double value = 0.0);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor flip(const Tensor& x, const std::vector<int>& axes);
// x [N,H,W,C] → [N,height,width,C]. Coordinates as PyTorch's interpolate.
Tensor resize2d(const Tensor& x, Index height, Index width, ResizeMode mode, bool align_corners = false);

// ---- The ops
// ----------------------------------------------------------------------------------------------------

struct Reshape {
  Shape from, to;
  static constexpr OpInfo info{"reshape", CastRule::neutral};
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

struct Permute {
  std::array<int, kMaxRank> order{};  // axis i of the result is axis order[i] of x
  static constexpr OpInfo info{"permute", CastRule::neutral};
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

struct Concat {
  int axis = 0;
  std::vector<Index> extents;  // of the inputs along `axis`
  static constexpr OpInfo info{"concat", CastRule::widest};
  struct In {
    TensorList list;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct Stack {
  int axis = 0;
  static constexpr OpInfo info{"stack", CastRule::widest};
  struct In {
    TensorList list;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct Split {
  int axis = 0;
  std::vector<Index> extents;
  Shape shape;  // of x
  static constexpr OpInfo info{"split", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    TensorList list;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct Unbind {
  Shape shape;  // of x
  static constexpr OpInfo info{"unbind", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    TensorList list;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

// Places the elements of a small tensor within a large one: element i of the small one is element first +
// i·step of the large one, on every axis.
struct Window {
  Shape large, small;
  std::array<Index, kMaxRank> first{}, step{};
};

struct Slice {
  Window window;
  bool view = false;  // the elements follow one another in x: share its storage
  static constexpr OpInfo info{"slice", CastRule::neutral};
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

// The adjoint of Slice, with `value` around and between.
struct Pad {
  Window window;
  double value = 0.0;
  static constexpr OpInfo info{"pad", CastRule::neutral};
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

struct BroadcastTo {
  Shape from, to;
  static constexpr OpInfo info{"broadcast_to", CastRule::neutral};
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

struct Flip {
  std::uint32_t axes = 0;  // bit i: axis i
  static constexpr OpInfo info{"flip", CastRule::neutral};
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

struct Resize2d {
  Shape from, to;  // [N,H,W,C], [N,H',W',C]
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;
  static constexpr OpInfo info{"resize2d", CastRule::neutral};
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

// The adjoint of Resize2d: from the gradient of the output to that of the input.
struct Resize2dAdjoint {
  Resize2d resize;
  static constexpr OpInfo info{"resize2d_adjoint", CastRule::neutral};
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

using ShapeOps = TypeList<Reshape, Permute, Concat, Stack, Split, Unbind, Slice, Pad, BroadcastTo, Flip,
                          Resize2d, Resize2dAdjoint>;

}  // namespace tandem
