#include "autograd/ops/random.h"

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/random_ops.h"
#include "core/error.h"

namespace tandem {

namespace ops {

Dropout::Out Dropout::forward(Context& context, Saved&, const In& in) const {
  require(is_floating(in.x.dtype()), info.name, "has no meaning for {}", name_of(in.x.dtype()));
  Out out{context.empty(in.x.shape())};
  context.backend.dropout(in.x, key, p, out.y);
  return out;
}

// The same mask again: dropout is linear in x.
Dropout::In Dropout::backward(const Saved&, const Out& dy, const Needs& needs) const {
  if (!dy.y.defined()) return {};
  if (needs.create_graph()) return {apply(*this, {dy.y}).y};
  const Tensor dx = needs.may_overwrite(dy.y) ? dy.y.detach() : Tensor::empty(dy.y.shape(), dy.y.options());
  backend_for(dx.device()).dropout(dy.y, key, p, dx);
  return {dx};
}

}  // namespace ops

Tensor dropout(const Tensor& x, double p, bool training) {
  require(x.defined(), "dropout", "the input is absent");
  require(p >= 0.0 && p < 1.0, "dropout", "the probability must lie in [0,1), got {}", p);
  if (!training || p == 0.0) return x;
  ops::Dropout op;
  op.key = next_random_key(RandomPurpose::dropout);
  op.p = p;
  return apply(op, {x}).y;
}

}  // namespace tandem
