#include "autograd/ops/random.h"

#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/random_ops.h"
#include "core/error.h"
#include "core/kernels/random.h"

namespace tandem {

namespace ops {

Result Dropout::forward(Context& context, Nothing&, const Operand& in) const {
  require(is_floating(in.x.dtype()), info.name, "has no meaning for {}", name_of(in.x.dtype()));
  Result out{context.empty(in.x.shape())};
  drop(context.backend, in.x, out.y);
  return out;
}

// A mask is a function of the key and the position in memory, so one key gives every slice the same mask.
void Dropout::drop(Backend& backend, const Tensor& x, const Tensor& y) const {
  if (!locked) return backend.random().dropout(x, key, p, y);
  for (Index i = 0; i < x.size(0); ++i) backend.random().dropout(x.rows(i, 1), key, p, y.rows(i, 1));
}

// The same mask, because dropout is linear in x.
Operand Dropout::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  if (needs.create_graph()) return {apply(*this, {dy.y}).y};
  const Tensor dx = needs.may_overwrite(dy.y) ? dy.y.detach() : Tensor::empty(dy.y.shape(), dy.y.options());
  drop(backend_for(dx.device()), dy.y, dx);
  return {dx};
}

Result RandomNormal::forward(Context& context, Nothing&, const Nothing&) const {
  Result out{Tensor::empty(shape, options)};
  context.backend.random().random_normal(key, out.y, mean, stddev);
  return out;
}

Result RandomUniform::forward(Context& context, Nothing&, const Nothing&) const {
  Result out{Tensor::empty(shape, options)};
  context.backend.random().random_uniform(key, out.y, low, high);
  return out;
}

}  // namespace ops

namespace {
void require_drawable(const char* op, const Shape& shape, DType dtype) {
  constexpr Index kMost = Index{1} << 34;  // words of one key
  require(is_floating(dtype), op, "draws floating numbers, not {}", name_of(dtype));
  require(shape.numel() <= kMost, op, "{} has more than the 2^34 elements of one draw; draw parts of it",
          to_string(shape));
}

Tensor dropped(const Tensor& x, double p, bool training, bool locked) {
  require(x.defined(), "dropout", "the input is absent");
  require(p >= 0.0 && p < 1.0, "dropout", "the probability must lie in [0,1), got {}", p);
  require(!locked || x.rank() > 0, "dropout", "a scalar has no axis that shares a mask");
  if (!training || p == 0.0) return x;
  ops::Dropout op;
  op.key = next_random_key(RandomPurpose::dropout);
  op.p = p;
  op.locked = locked;
  return apply(op, {x}).y;
}
}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) { return dropped(x, p, training, false); }
Tensor locked_dropout(const Tensor& x, double p, bool training) { return dropped(x, p, training, true); }

Tensor random_normal(const Shape& shape, const NormalOptions& options) {
  require_drawable("random_normal", shape, options.dtype);
  require(std::isfinite(options.mean) && std::isfinite(options.stddev) && options.stddev >= 0.0,
          "random_normal", "mean {} and standard deviation {} must be finite, the deviation not negative",
          options.mean, options.stddev);
  ops::RandomNormal op;
  op.key = next_random_key(RandomPurpose::user);
  op.shape = shape;
  op.options = {.dtype = options.dtype, .device = options.device};
  op.mean = options.mean;
  op.stddev = options.stddev;
  return apply(op, {}).y;
}

Tensor random_uniform(const Shape& shape, double low, double high, const TensorOptions& options) {
  require_drawable("random_uniform", shape, options.dtype);
  require(std::isfinite(low) && std::isfinite(high) && std::isfinite(high - low) && low <= high,
          "random_uniform", "needs low <= high, both finite, got {} and {}", low, high);
  ops::RandomUniform op;
  op.key = next_random_key(RandomPurpose::user);
  op.shape = shape;
  op.options = options;
  op.low = low;
  op.high = high;
  return apply(op, {}).y;
}

}  // namespace tandem
