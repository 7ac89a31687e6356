// The op structs behind shape.h.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/shape.h"

namespace tandem {

namespace ops {

struct Reshape {
  Shape from, to;
  static constexpr OpInfo info{"reshape", CastRule::neutral, {.kind = OpKind::moves}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Permute {
  std::array<int, kMaxRank> order{};  // axis i of the result is axis order[i] of x
  static constexpr OpInfo info{"permute", CastRule::neutral, {.kind = OpKind::moves}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Operands {
  TensorList list;
};

struct Concat {
  int axis = 0;
  std::vector<Index> extents;  // of the inputs along `axis`
  static constexpr OpInfo info{"concat", CastRule::widest, {.kind = OpKind::joins, .keeps_type = true}};
  Result forward(Context&, Nothing&, const Operands&) const;
  Operands backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Stack {
  int axis = 0;
  static constexpr OpInfo info{"stack", CastRule::widest, {.kind = OpKind::joins, .keeps_type = true}};
  Result forward(Context&, Nothing&, const Operands&) const;
  Operands backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Split {
  int axis = 0;
  std::vector<Index> extents;
  Shape shape;  // of x
  static constexpr OpInfo info{"split", CastRule::neutral, {.kind = OpKind::moves}};
  Operands forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Operands& dy, const Needs&) const;
};

struct Unbind {
  Shape shape;  // of x
  static constexpr OpInfo info{"unbind", CastRule::neutral, {.kind = OpKind::moves}};
  Operands forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Operands& dy, const Needs&) const;
};

// Position of a small tensor within a large one: element i of the small one is element first + i·step of the
// large one, on every axis.
struct Window {
  Shape large, small;
  std::array<Index, kMaxRank> first{}, step{};
};

// A range of `axis` of a tensor of shape `large`.
Window range_of(const Shape& large, int axis, Index first, Index extent);

struct Slice {
  Window window;
  bool view = false;  // contiguous in x: share its storage
  static constexpr OpInfo info{"slice", CastRule::neutral, {.kind = OpKind::moves}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

// The adjoint of Slice, filled with `value`.
struct Pad {
  Window window;
  double value = 0.0;
  static constexpr OpInfo info{"pad", CastRule::neutral, {.kind = OpKind::pads}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct BroadcastTo {
  Shape from, to;
  static constexpr OpInfo info{"broadcast_to", CastRule::neutral, {.kind = OpKind::repeats}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Flip {
  std::uint32_t axes = 0;  // bit i: axis i
  static constexpr OpInfo info{"flip", CastRule::neutral, {.kind = OpKind::moves}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

struct Resize2d {
  Shape from, to;  // [N,H,W,C], [N,H',W',C]
  ResizeOptions options{};
  static constexpr OpInfo info{
      "resize2d", CastRule::neutral, {.kind = OpKind::computes, .family = "shape", .keeps_type = true}};
  Result forward(Context&, Nothing&, const Operand&) const;
  Operand backward(const Nothing&, const Result& dy, const Needs&) const;
};

// The adjoint of Resize2d: maps the output gradient to the input gradient.
struct Resize2dAdjoint {
  Resize2d resize;
  static constexpr OpInfo info{
      "resize2d_adjoint", CastRule::neutral, {.kind = OpKind::computes, .family = "shape"}};
  InputGradient forward(Context&, Nothing&, const OutputGradient&) const;
  OutputGradient backward(const Nothing&, const InputGradient& ddx, const Needs&) const;
};

}  // namespace ops

}  // namespace tandem
