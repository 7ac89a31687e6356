#include "autograd/ops/softmax.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/softmax_ops.h"
#include "core/kernels/softmax.h"

namespace tandem {

namespace ops {

template <bool kLog>
Result SoftmaxOp<kLog>::forward(Context& context, Result& saved, const Operand& in) const {
  saved.y = context.empty(in.x.shape());
  context.backend.softmax().softmax(in.x, axis, kLog, saved.y);
  return saved;
}

template <bool kLog>
Operand SoftmaxOp<kLog>::backward(const Result& saved, const Result& dy, const Needs& needs) const {
  if (!needs.create_graph()) {
    const bool overwrite = dy.y.dtype() == input && needs.may_overwrite(dy.y);
    const Tensor dx = overwrite ? dy.y : Tensor::empty(dy.y.shape(), {input, dy.y.device()});
    backend_for(dx.device()).softmax().softmax_backward(saved.y, dy.y, axis, kLog, dx);
    return {dx};
  }
  const Tensor y = cast(saved.y, wide_of(input)), g = cast(dy.y, wide_of(input));
  if (kLog) return {g - exp(y) * sum(g, {axis}, /*keep_axes=*/true)};
  return {y * (g - sum(g * y, {axis}, /*keep_axes=*/true))};
}

template struct SoftmaxOp<false>;
template struct SoftmaxOp<true>;

}  // namespace ops

namespace {

template <class Op>
Tensor along(const Tensor& x, int axis) {
  require(is_floating(x.dtype()), Op::info.name, "expects a floating tensor, got {}", to_string(x));
  return apply(Op{normalized_axis(axis, x.rank(), Op::info.name), x.dtype()}, {x}).y;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) { return along<ops::Softmax>(x, axis); }
Tensor log_softmax(const Tensor& x, int axis) { return along<ops::LogSoftmax>(x, axis); }

OpInfos softmax_ops() { return infos_of<ops::Softmax, ops::LogSoftmax>(); }

}  // namespace tandem
