// The op structs behind index.h.
#pragma once

#include "autograd/ops/index.h"
#include "autograd/ops/parts.h"

namespace tandem {

namespace ops {

struct IndexedOperand {
  Tensor x, index;
};
struct KeptIndex {
  Tensor index;
};

// Gathers rows of the master and rounds them.
struct Embedding {
  Shape table;  // [V,D]
  DType stored = DType::f32;
  std::optional<Index> padding_index;
  static constexpr OpInfo info{
      "embedding", CastRule::neutral, {.kind = OpKind::looks_up, .marks_rows = true}, {keep, keep}};
  struct In {
    Tensor table, index;
  };
  Result forward(Context&, KeptIndex&, const In&) const;
  In backward(const KeptIndex&, const Result& dy, const Needs&) const;
};

struct Gather {
  int axis = 0;
  Shape shape;  // of x
  static constexpr OpInfo info{
      "gather", CastRule::neutral, {.kind = OpKind::gathers, .keeps_type = true}, {data, keep}};
  Result forward(Context&, KeptIndex&, const IndexedOperand&) const;
  IndexedOperand backward(const KeptIndex&, const Result& dy, const Needs&) const;
};

// x may be absent: zeros of `shape`.
struct ScatterAdd {
  int axis = 0;
  Shape shape;  // of x and y
  static constexpr OpInfo info{"scatter_add",
                               CastRule::widest,
                               {.kind = OpKind::computes, .family = "index", .keeps_type = true},
                               {data, keep, data}};
  struct In {
    Tensor x, index, src;
  };
  Result forward(Context&, KeptIndex&, const In&) const;
  In backward(const KeptIndex&, const Result& dy, const Needs&) const;
};

struct IndexSelect {
  int axis = 0;
  Shape shape;  // of x
  static constexpr OpInfo info{
      "index_select", CastRule::neutral, {.kind = OpKind::gathers, .keeps_type = true}, {data, keep}};
  Result forward(Context&, KeptIndex&, const IndexedOperand&) const;
  IndexedOperand backward(const KeptIndex&, const Result& dy, const Needs&) const;
};

// The adjoint of IndexSelect and Embedding: adds slices of src to zeros of `shape` at `index`, except index
// `skip`.
struct IndexAdd {
  int axis = 0;
  Shape shape;
  DType dtype = DType::f32;  // of the result
  std::optional<Index> skip;
  static constexpr OpInfo info{"index_add", CastRule::none, {.kind = OpKind::computes, .family = "index"}};
  struct In {
    Tensor src, index;
  };
  Result forward(Context&, KeptIndex&, const In&) const;
  In backward(const KeptIndex&, const Result& dy, const Needs&) const;
};

struct OneHot {
  Index classes = 0;
  DType dtype = DType::f32;
  static constexpr OpInfo info{"one_hot", CastRule::none, {.kind = OpKind::computes, .family = "index"}};
  struct In {
    Tensor index;
  };
  Result forward(Context&, Nothing&, const In&) const;
};

struct TopK {
  Index k = 0;
  int axis = 0;
  bool largest = true;
  Shape shape;  // of x
  static constexpr OpInfo info{"topk", CastRule::fp32, {.kind = OpKind::computes, .family = "index"}};
  ValuesAndIndices forward(Context&, KeptIndex&, const Operand&) const;
  Operand backward(const KeptIndex&, const ValuesAndIndices& dy, const Needs&) const;
};

struct Sort {
  TopK all;  // with k = the extent of the axis
  static constexpr OpInfo info{"sort", CastRule::fp32, {.kind = OpKind::computes, .family = "index"}};
  ValuesAndIndices forward(Context& context, KeptIndex& saved, const Operand& in) const {
    return all.forward(context, saved, in);
  }
  Operand backward(const KeptIndex& saved, const ValuesAndIndices& dy, const Needs& needs) const {
    return all.backward(saved, dy, needs);
  }
};

}  // namespace ops

}  // namespace tandem
