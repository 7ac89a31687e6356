#include "autograd/ops/softmax.h"

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/softmax_ops.h"
#include "core/kernels/softmax.h"

namespace tandem {

namespace ops {

namespace {

Tensor forward_of(const Context& context, const Tensor& x, int axis, bool log) {
  const Tensor y = context.empty(x.shape());
  context.backend.softmax().softmax(x, axis, log, y);
  return y;
}

// The kernel's gradient, written over dy if it has no other holder.
Tensor gradient_of(const Tensor& y, const Tensor& dy, int axis, bool log, DType dtype, const Needs& needs) {
  const bool overwrite = dy.dtype() == dtype && needs.may_overwrite(dy);
  const Tensor dx = overwrite ? dy : Tensor::empty(dy.shape(), {dtype, dy.device()});
  backend_for(dy.device()).softmax().softmax_backward(y, dy, axis, log, dx);
  return dx;
}

}  // namespace

Softmax::Out Softmax::forward(Context& context, Saved& saved, const In& in) const {
  saved.y = forward_of(context, in.x, axis, /*log=*/false);
  return {saved.y};
}

Softmax::In Softmax::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  if (!needs.create_graph()) return {gradient_of(saved.y, dy.y, axis, /*log=*/false, input, needs)};
  const Tensor p = cast(saved.y, wide_of(input)), g = cast(dy.y, wide_of(input));
  return {p * (g - sum(g * p, {axis}, /*keep_axes=*/true))};
}

LogSoftmax::Out LogSoftmax::forward(Context& context, Saved& saved, const In& in) const {
  saved.y = forward_of(context, in.x, axis, /*log=*/true);
  return {saved.y};
}

LogSoftmax::In LogSoftmax::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  if (!needs.create_graph()) return {gradient_of(saved.y, dy.y, axis, /*log=*/true, input, needs)};
  const Tensor log_p = cast(saved.y, wide_of(input)), g = cast(dy.y, wide_of(input));
  return {g - exp(log_p) * sum(g, {axis}, /*keep_axes=*/true)};
}

}  // namespace ops

Tensor softmax(const Tensor& x, int axis) {
  require(is_floating(x.dtype()), "softmax", "expects a floating tensor, got {}", to_string(x));
  return apply(ops::Softmax{normalized_axis(axis, x.rank(), "softmax"), x.dtype()}, {x}).y;
}

Tensor log_softmax(const Tensor& x, int axis) {
  require(is_floating(x.dtype()), "log_softmax", "expects a floating tensor, got {}", to_string(x));
  return apply(ops::LogSoftmax{normalized_axis(axis, x.rank(), "log_softmax"), x.dtype()}, {x}).y;
}

}  // namespace tandem
