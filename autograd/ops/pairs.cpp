#include "autograd/ops/pairs.h"

#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/pairs_ops.h"
#include "autograd/ops/shape.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/kernels/elementwise.h"

namespace tandem {

namespace ops {

namespace {

void check_positions(const Rotary& op, const Rotary::In& in) {
  const OpInfo& info = Rotary::info;
  const Index rows = in.x.size(1), bound = in.table.size(0);
  if (!in.positions.defined()) {
    return require(op.first >= 0 && op.first + rows <= bound, info.name,
                   "{} rows from position {} on exceed the {} positions of the table; make a longer table",
                   rows, op.first, bound);
  }
  require(in.positions.dtype() == DType::i64 && in.positions.shape() == Shape{in.x.size(0), rows}, info.name,
          "positions must be i64 [{},{}], one for each row of {}, got {}", in.x.size(0), rows,
          to_string(in.x), to_string(in.positions));
  if (in.positions.device().type != DeviceType::cpu) return;
  for (Index i = 0; i < in.positions.numel(); ++i) {
    const std::int64_t position = in.positions.data<std::int64_t>()[i];
    require(position >= 0 && position < bound, info.name,
            "position {} of row {} lies outside the table of {} positions; make a longer table", position, i,
            bound);
  }
}

}  // namespace

void Rotary::turn(Backend& backend, const In& in, const Tensor& y) const {
  backend.elementwise().rotate(in.x,
                               {.table = in.table,
                                .positions = in.positions,
                                .heads = heads,
                                .steps = in.x.size(1),
                                .first = first,
                                .interleaved = interleaved,
                                .inverse = inverse},
                               y);
}

Result Rotary::forward(Context& context, Saved& saved, const In& in) const {
  check_positions(*this, in);
  saved = {in.table, in.positions};
  const Result out{context.empty(in.x.shape())};
  turn(context.backend, in, out.y);
  return out;
}

Rotary::In Rotary::backward(const Saved& saved, const Result& dy, const Needs& needs) const {
  Rotary back = *this;
  back.inverse = !inverse;
  const In in{dy.y, saved.table, saved.positions};
  if (needs.create_graph()) return {apply(back, in).y, {}, {}};
  const Tensor dx = needs.may_overwrite(dy.y) ? dy.y.detach() : Tensor::empty(dy.y.shape(), dy.y.options());
  back.turn(backend_for(dx.device()), in, dx);
  return {dx, {}, {}};
}

Result Swiglu::forward(Context& context, Operand& saved, const Operand& in) const {
  saved.x = in.x;
  const int last = in.x.rank() - 1;
  const Result out{context.empty(in.x.shape().with(last, in.x.size(-1) / 2))};
  context.backend.elementwise().swiglu(in.x, out.y);
  return out;
}

Operand Swiglu::backward(const Operand& saved, const Result& dy, const Needs&) const {
  const Tensor dx = Tensor::empty(saved.x.shape(), {dy.y.dtype(), saved.x.device()});
  backend_for(dx.device()).elementwise().swiglu_backward(saved.x, dy.y, dx);
  return {dx};
}

Result Swiglu::composed(const Swiglu&, const Operand& in) {
  const Index width = in.x.size(-1) / 2;
  return {mul(silu(slice(in.x, -1, 0, width)), slice(in.x, -1, width, 2 * width))};
}

}  // namespace ops

Tensor rotary_table(Index positions, Index width, double theta, const TensorOptions& options) {
  require(positions >= 0 && width > 0 && width % 2 == 0 && theta > 0.0, "rotary_table",
          "needs an even width, positions and a positive theta, got width {}, {} positions, theta {}", width,
          positions, theta);
  const Tensor table = Tensor::empty({positions, width}, {.dtype = options.dtype});
  const Index half = width / 2;
  visit_floating(options.dtype, [&]<class S>(TypeTag<S>) {
    S* const values = table.data<S>();
    for (Index i = 0; i < half; ++i) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      for (Index p = 0; p < positions; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        values[p * width + i] = convert<S>(std::cos(angle));
        values[p * width + half + i] = convert<S>(std::sin(angle));
      }
    }
  });
  return table.to(options.device);
}

Tensor rotary(const Tensor& x, const Tensor& table, const RotaryOptions& options) {
  const char* const op = ops::Rotary::info.name;
  require(x.defined() && x.rank() == 3 && is_floating(x.dtype()), op,
          "x must be floating [N,T,heads·D], got {}", to_string(x));
  require(
      table.defined() && table.rank() == 2 && (table.dtype() == DType::f32 || table.dtype() == DType::f64),
      op, "the table must be f32 or f64 [P,D], as rotary_table() makes it, got {}", to_string(table));
  require(options.heads >= 1 && table.size(1) % 2 == 0 && x.size(2) == options.heads * table.size(1), op,
          "{} heads of the table's {} columns must be the {} columns of {}", options.heads, table.size(1),
          x.size(2), to_string(x));
  return apply(
             ops::Rotary{.heads = options.heads, .first = options.first, .interleaved = options.interleaved},
             {x, table, options.positions})
      .y;
}

Tensor swiglu(const Tensor& x) {
  require(x.defined() && x.rank() >= 1 && is_floating(x.dtype()) && x.size(-1) % 2 == 0, "swiglu",
          "x must be floating [...,2F], gates and values, got {}", to_string(x));
  return apply(ops::Swiglu{}, {x}).y;
}

OpInfos pairs_ops() { return infos_of<ops::Rotary, ops::Swiglu>(); }

}  // namespace tandem
