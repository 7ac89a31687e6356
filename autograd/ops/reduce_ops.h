// The op structs behind reduce.h.
#pragma once

#include "autograd/ops/parts.h"
#include "autograd/ops/reduce.h"

namespace tandem {

namespace ops {

// Geometry of a reduction. `x_dtype`: of the original input, and of its gradient.
struct ReduceGeometry {
  Shape x_shape;
  DType x_dtype = DType::f32;
  std::uint32_t axes = 0;  // bit i: axis i is reduced
  bool keep_axes = false;

  Shape kept_shape() const;    // reduced axes have extent 1
  Shape result_shape() const;  // depends on keep_axes
  Index count() const;         // elements per result
};

struct Reducing {
  using In = Operand;
  using Out = Result;
  ReduceGeometry geometry;
};

struct Sum : Reducing {
  static constexpr OpInfo info{"sum", CastRule::fp32, {.kind = OpKind::reduces}};
  Out forward(Context& context, Nothing&, const In& in) const;
  In backward(const Nothing&, const Out& dy, const Needs& needs) const;
};

struct Mean : Reducing {
  static constexpr OpInfo info{"mean", CastRule::fp32, {.kind = OpKind::reduces}};
  Out forward(Context& context, Nothing&, const In& in) const;
  In backward(const Nothing&, const Out& dy, const Needs& needs) const;
};

struct Var : Reducing {
  static constexpr OpInfo info{"var", CastRule::fp32, {.kind = OpKind::reduces}};
  double correction = 1.0;
  struct Saved {
    Tensor x, mean;  // mean has the kept shape
  };
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};

// For reductions whose backward needs x and the result.
struct ReducingWithResult : Reducing {
  struct Saved {
    Tensor x, y;
  };
};

struct Prod : ReducingWithResult {
  static constexpr OpInfo info{"prod", CastRule::fp32, {.kind = OpKind::reduces}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};

// Max and min.
template <bool kMax>
struct Extremum : ReducingWithResult {
  static constexpr OpInfo info{kMax ? "max" : "min", CastRule::neutral, {.kind = OpKind::selects}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};
using Max = Extremum<true>;
using Min = Extremum<false>;

struct LogSumExp : ReducingWithResult {
  static constexpr OpInfo info{"logsumexp", CastRule::fp32, {.kind = OpKind::reduces}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};

struct Norm : ReducingWithResult {
  static constexpr OpInfo info{"norm", CastRule::fp32, {.kind = OpKind::reduces}};
  NormOrder order = NormOrder::two;
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};

template <bool kMax>
struct ArgExtremum : Reducing {
  static constexpr OpInfo info{kMax ? "argmax" : "argmin", CastRule::neutral, {.kind = OpKind::reduces}};
  Out forward(Context& context, Nothing&, const In& in) const;
};
using ArgMax = ArgExtremum<true>;
using ArgMin = ArgExtremum<false>;

struct CumSum {
  static constexpr OpInfo info{"cumsum", CastRule::fp32, {.kind = OpKind::reduces}};
  int axis = 0;
  bool reverse = false;
  Result forward(Context& context, Nothing&, const Operand& in) const;
  Operand backward(const Nothing&, const Result& dy, const Needs& needs) const;
};

}  // namespace ops

}  // namespace tandem
