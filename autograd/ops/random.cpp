#include "autograd/ops/random.h"

#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/random_ops.h"
#include "core/error.h"
#include "core/kernels/random.h"
#include "core/random.h"

namespace tandem {

namespace ops {

Result Dropout::forward(Context& context, Nothing&, const Operand& in) const {
  require(is_floating(in.x.dtype()), info.name, "has no meaning for {}", name_of(in.x.dtype()));
  Result out{context.empty(in.x.shape())};
  drop(context.backend, in.x, out.y);
  return out;
}

// The same mask, because dropout is linear in x.
Operand Dropout::backward(const Nothing&, const Result& dy, const Needs& needs) const {
  if (needs.create_graph()) return {apply(*this, {dy.y}).y};
  const Tensor dx = needs.may_overwrite(dy.y) ? dy.y.detach() : Tensor::empty(dy.y.shape(), dy.y.options());
  drop(backend_for(dx.device()), dy.y, dx);
  return {dx};
}

void Dropout::drop(Backend& backend, const Tensor& x, const Tensor& y) const {
  if (!locked) return backend.random().dropout(x, key, p, y);
  for (Index i = 0; i < x.size(0); ++i) backend.random().dropout(x.rows(i, 1), key, p, y.rows(i, 1));
}

void require_dropout(const char* op, double p) {
  require(p >= 0.0 && p < 1.0, op, "the probability must lie in [0,1), got {}", p);
}

namespace {

struct RandomNormal {
  static constexpr OpInfo info{"random_normal", CastRule::none, {.kind = OpKind::draws}};
  RandomKey key;
  Shape shape;
  TensorOptions options;
  double mean = 0.0, stddev = 1.0;
  Result forward(Context& context, Nothing&, const Nothing&) const {
    Result out{Tensor::empty(shape, options)};
    context.backend.random().random_normal(key, out.y, mean, stddev);
    return out;
  }
};

struct RandomUniform {
  static constexpr OpInfo info{"random_uniform", CastRule::none, {.kind = OpKind::draws}};
  RandomKey key;
  Shape shape;
  TensorOptions options;
  double low = 0.0, high = 1.0;
  Result forward(Context& context, Nothing&, const Nothing&) const {
    Result out{Tensor::empty(shape, options)};
    context.backend.random().random_uniform(key, out.y, low, high);
    return out;
  }
};

}  // namespace

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
  ops::require_dropout("dropout", p);
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
Tensor dropout(const Tensor& x, double p, const RandomKey& key) {
  ops::Dropout op;
  op.key = key;
  op.p = p;
  return apply(op, {x}).y;
}
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

OpInfos random_ops() { return infos_of<ops::Dropout, ops::RandomNormal, ops::RandomUniform>(); }

}  // namespace tandem
