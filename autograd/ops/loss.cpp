#include "autograd/ops/loss.h"

#include <limits>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/index_ops.h"
#include "autograd/ops/loss_classes.h"
#include "autograd/ops/loss_ops.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/kernels/softmax.h"

namespace tandem {

namespace ops {

namespace {

Tensor reduced(const Tensor& loss, Reduce reduce) {
  switch (reduce) {
    case Reduce::none:
      return loss;
    case Reduce::mean:
      return mean(loss);
    case Reduce::sum:
      break;
  }
  return sum(loss);
}

// The gradient of every element from that of the loss: its own, or one broadcast number.
Tensor per_element(const Tensor& dloss, Reduce reduce, Index count) {
  return reduce == Reduce::mean ? div(dloss, static_cast<double>(count)) : dloss;
}

}  // namespace

Loss CrossEntropy::forward(Context& context, Saved& saved, const In& in) const {
  const Inside inside;
  const DType dtype = wide_of(in.logits.dtype());
  const Shape rows{in.logits.shape()[0]};
  const Tensor loss = context.empty(rows, dtype), row_weight = context.empty(rows, dtype);
  saved = {in.logits, in.target, in.class_weights, context.empty(rows, dtype), {}};
  context.backend.softmax().cross_entropy(in.logits, in.target, in.class_weights, options, loss, row_weight,
                                          saved.lse);
  if (reduce != Reduce::mean) return {reduced(loss, reduce)};
  saved.divisor = divisor_of(row_weight);
  return {sum(loss) / saved.divisor};
}

namespace {

// The gradient in public ops, for higher derivatives: g·((1-ε)·w[t]·(p - onehot) + ε/C·(p·W - w)).
Tensor cross_entropy_gradient(const CrossEntropy& op, const CrossEntropy::Saved& saved, const Tensor& dloss) {
  const DType dtype = wide_of(saved.logits.dtype());
  const Index rows = saved.logits.shape()[0], classes = saved.logits.shape()[1];
  const double smoothing = op.options.label_smoothing, spread = smoothing / static_cast<double>(classes);
  const Classes target = classes_of(saved.target, saved.class_weights, op.options.ignore_index, dtype);
  const Tensor counted = classes_of(saved.target, {}, op.options.ignore_index, dtype).row_weight;
  const Tensor p = softmax(cast(saved.logits, dtype));
  const Tensor on_target = reshape(target.row_weight * (1.0 - smoothing), {rows, 1});
  Tensor gradient = on_target * (p - one_hot(reshape(target.index, {rows}), classes, dtype));
  if (smoothing > 0.0) {
    const Tensor weights = saved.class_weights.defined() ? cast(saved.class_weights.detach(), dtype)
                                                         : Tensor::full({classes}, 1.0, {dtype, p.device()});
    gradient = gradient + reshape(counted * spread, {rows, 1}) * (p * sum(weights) - weights);
  }
  return gradient * reshape(broadcast_to(dloss, {rows}), {rows, 1});
}

}  // namespace

CrossEntropy::In CrossEntropy::backward(const Saved& saved, const Loss& dloss, const Needs& needs) const {
  const Tensor g = reduce == Reduce::mean ? dloss.loss / saved.divisor : dloss.loss;
  if (needs.create_graph()) return {cross_entropy_gradient(*this, saved, g), {}, {}};
  const Tensor dlogits = Tensor::empty(saved.logits.shape(), saved.logits.options());
  backend_for(g.device())
      .softmax()
      .cross_entropy_backward(saved.logits, saved.target, saved.class_weights, options, saved.lse,
                              broadcast_to(g, saved.lse.shape()), dlogits);
  return {dlogits, {}, {}};
}

Loss SoftCrossEntropy::forward(Context&, In& saved, const In& in) const {
  saved = {in.logits, in.target, in.class_weights};
  const Inside inside;
  const DType dtype = wide_of(in.logits.dtype());
  const double classes = static_cast<double>(in.logits.shape()[1]);
  Tensor weighted = cast(in.target, dtype);
  if (label_smoothing > 0.0) weighted = weighted * (1.0 - label_smoothing) + label_smoothing / classes;
  if (in.class_weights.defined()) weighted = weighted * cast(in.class_weights, dtype);
  return {reduced(neg(sum(weighted * log_softmax(cast(in.logits, dtype)), {1})), reduce)};
}

SoftCrossEntropy::In SoftCrossEntropy::backward(const In& saved, const Loss& dloss,
                                                const Needs& needs) const {
  const DType dtype = wide_of(saved.logits.dtype());
  const Index rows = saved.logits.shape()[0], classes = saved.logits.shape()[1];
  const Tensor logits = cast(saved.logits, dtype);
  const Tensor g = reshape(broadcast_to(per_element(dloss.loss, reduce, rows), {rows}), {rows, 1});
  Tensor weights;
  if (saved.class_weights.defined()) weights = cast(saved.class_weights.detach(), dtype);
  In dx;
  if (needs[0]) {
    Tensor q = cast(saved.target, dtype);
    if (label_smoothing > 0.0)
      q = q * (1.0 - label_smoothing) + label_smoothing / static_cast<double>(classes);
    if (weights.defined()) q = q * weights;
    dx.logits = g * (softmax(logits) * sum(q, {1}, /*keep_axes=*/true) - q);
  }
  if (needs[1]) {
    const Tensor slope = log_softmax(logits) * (label_smoothing - 1.0);
    dx.target = g * (weights.defined() ? slope * weights : slope);
  }
  return dx;
}

Loss NllLoss::forward(Context&, Saved& saved, const In& in) const {
  const Inside inside;
  const DType dtype = wide_of(in.x.dtype());
  const Classes classes = classes_of(in.target, in.class_weights, ignore_index, dtype);
  saved = {classes.index, classes.row_weight, {}};
  const Tensor picked = reshape(cast(gather(in.x, classes.index, 1), dtype), {shape[0]});
  // An ignored row counts 0 even if its first column is infinite.
  const Tensor zero = Tensor::scalar(0.0, picked.options());
  const Tensor loss = where(equal(classes.row_weight, zero), zero, neg(picked * classes.row_weight));
  if (reduce != Reduce::mean) return {reduced(loss, reduce)};
  saved.divisor = divisor_of(classes.row_weight);
  return {sum(loss) / saved.divisor};
}

NllLoss::In NllLoss::backward(const Saved& saved, const Loss& dloss, const Needs& needs) const {
  const Tensor g = reduce == Reduce::mean ? dloss.loss / saved.divisor : dloss.loss;
  const Tensor src = reshape(neg(saved.row_weight * g), {shape[0], 1});
  return {apply(ScatterAdd{1, shape}, {{}, saved.index, src}, needs.sink(0)).y, {}, {}};
}

template <class Rule>
Loss PointwiseLoss<Rule>::forward(Context&, In& saved, const In& in) const {
  saved = {in.x, in.target};
  const Inside inside;
  const DType dtype = wide_of(promote(in.x.dtype(), in.target.dtype()));
  return {reduced(rule.value(cast(in.x, dtype), cast(in.target, dtype)), reduce)};
}

template <class Rule>
typename PointwiseLoss<Rule>::In PointwiseLoss<Rule>::backward(const In& saved, const Loss& dloss,
                                                               const Needs& needs) const {
  const DType dtype = wide_of(promote(saved.x.dtype(), saved.target.dtype()));
  const Tensor x = cast(saved.x, dtype), target = cast(saved.target, dtype);
  const Tensor g = per_element(dloss.loss, reduce, x.numel());
  In dx;
  if constexpr (requires { rule.gradient(x, target, g); }) {
    if (!needs.create_graph()) {
      if (needs[0]) dx.x = rule.gradient(x, target, g);
      if (needs[1]) dx.target = rule.gradient(target, x, g);
      return dx;
    }
  }
  if (needs[0]) dx.x = rule.dx(x, target) * g;
  if (needs[1]) {
    if constexpr (requires { rule.dt(x, target); }) {
      dx.target = rule.dt(x, target) * g;
    } else {
      dx.target = rule.dx(target, x) * g;
    }
  }
  return dx;
}

namespace {

template <class Rule>
Tensor pointwise_loss(const Rule& rule, const Tensor& x, const Tensor& target, Reduce reduce) {
  require(x.defined() && is_floating(x.dtype()), Rule::kName, "expects a floating tensor, got {}",
          to_string(x));
  require(target.defined() && target.shape() == x.shape(), Rule::kName,
          "the target must have the shape of {}, got {}", to_string(x), to_string(target));
  return apply(PointwiseLoss<Rule>{rule, reduce}, {x, target}).loss;
}

// Saturating deviations: with m = min(|d|, limit), factor·m·(|d| - m/2) is factor·d²/2 below the limit and
// linear above.
Tensor huber(const Tensor& x, const Tensor& t, double limit, double factor) {
  const Tensor operands[] = {x, t};
  return pointwise_plain(formula_id<formulas::Huber>(), {limit, factor}, operands);
}
// Its derivative times g; not differentiable.
Tensor huber_gradient(const Tensor& x, const Tensor& t, const Tensor& g, double limit, double factor) {
  const Tensor operands[] = {x, t, g};
  return pointwise_plain(formula_id<formulas::HuberGradient>(), {limit, factor}, operands);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kVarianceFloor = 1e-12f;  // of p·(1-p); PyTorch's constant is a float

}  // namespace

namespace loss_rules {

Tensor Mse::value(const Tensor& x, const Tensor& t) const { return square(x - t); }
Tensor Mse::dx(const Tensor& x, const Tensor& t) const { return (x - t) * 2.0; }

Tensor L1::value(const Tensor& x, const Tensor& t) const { return abs(x - t); }
Tensor L1::dx(const Tensor& x, const Tensor& t) const { return sign(x - t); }

Tensor SmoothL1::value(const Tensor& x, const Tensor& t) const {
  return beta == 0.0 ? abs(x - t) : huber(x, t, beta, 1.0 / beta);
}
Tensor SmoothL1::dx(const Tensor& x, const Tensor& t) const {
  return beta == 0.0 ? sign(x - t) : clamp(x - t, -beta, beta) * (1.0 / beta);
}
Tensor SmoothL1::gradient(const Tensor& x, const Tensor& t, const Tensor& g) const {
  return beta == 0.0 ? dx(x, t) * g : huber_gradient(x, t, g, beta, 1.0 / beta);
}

Tensor Huber::value(const Tensor& x, const Tensor& t) const { return huber(x, t, delta, 1.0); }
Tensor Huber::dx(const Tensor& x, const Tensor& t) const { return clamp(x - t, -delta, delta); }
Tensor Huber::gradient(const Tensor& x, const Tensor& t, const Tensor& g) const {
  return huber_gradient(x, t, g, delta, 1.0);
}

// max(x,0) - x·t + log(1 + e^-|x|): no term overflows, and none cancels when the loss is small.
Tensor BceWithLogits::value(const Tensor& x, const Tensor& t) const {
  return relu(x) - x * t + log1p(exp(neg(abs(x))));
}
Tensor BceWithLogits::dx(const Tensor& x, const Tensor& t) const { return sigmoid(x) - t; }
Tensor BceWithLogits::dt(const Tensor& x, const Tensor&) const { return neg(x); }

Tensor Bce::value(const Tensor& x, const Tensor& t) const {
  const Tensor yes = clamp(log(x), -100.0, kInfinity), no = clamp(log1p(neg(x)), -100.0, kInfinity);
  return neg(t * yes + (1.0 - t) * no);
}
Tensor Bce::dx(const Tensor& x, const Tensor& t) const {
  return (x - t) / clamp(x * (1.0 - x), kVarianceFloor, kInfinity);
}
Tensor Bce::dt(const Tensor& x, const Tensor&) const {
  return clamp(log1p(neg(x)), -100.0, kInfinity) - clamp(log(x), -100.0, kInfinity);
}

Tensor KlDiv::value(const Tensor& x, const Tensor& t) const {
  const Tensor zero = Tensor::scalar(0.0, t.options());
  return where(equal(t, zero), zero, t * log(t)) - t * x;
}
Tensor KlDiv::dx(const Tensor&, const Tensor& t) const { return neg(t); }
Tensor KlDiv::dt(const Tensor& x, const Tensor& t) const { return log(t) + 1.0 - x; }

namespace {

// Parts of the focal loss: with p = σ(x), the error probability q = p·(1-t) + (1-p)·t, in a form that is
// accurate in both tails, and the balance α·t + (1-α)·(1-t).
struct FocalParts {
  Tensor p, not_p, q, balance;  // balance is absent when switched off
};

FocalParts focal_parts(const Focal& rule, const Tensor& x, const Tensor& t) {
  FocalParts parts{sigmoid(x), sigmoid(neg(x)), {}, {}};
  parts.q = parts.p * (1.0 - t) + parts.not_p * t;
  if (rule.alpha >= 0.0) parts.balance = t * (2.0 * rule.alpha - 1.0) + (1.0 - rule.alpha);
  return parts;
}

Tensor balanced(const FocalParts& parts, const Tensor& loss) {
  return parts.balance.defined() ? parts.balance * loss : loss;
}

// d q^γ / d q; bounded away from 0, where a small γ makes the power infinite.
Tensor power_slope(const Focal& rule, const Tensor& q) {
  return pow(clamp(q, 1e-30, kInfinity), rule.gamma - 1.0) * rule.gamma;
}

}  // namespace

Tensor Focal::value(const Tensor& x, const Tensor& t) const {
  const FocalParts parts = focal_parts(*this, x, t);
  return balanced(parts, BceWithLogits{}.value(x, t) * pow(parts.q, gamma));
}
Tensor Focal::dx(const Tensor& x, const Tensor& t) const {
  const FocalParts parts = focal_parts(*this, x, t);
  Tensor slope = pow(parts.q, gamma) * (parts.p - t);
  if (gamma != 0.0) {
    const Tensor dq = (1.0 - t * 2.0) * parts.p * parts.not_p;
    slope = slope + BceWithLogits{}.value(x, t) * power_slope(*this, parts.q) * dq;
  }
  return balanced(parts, slope);
}
Tensor Focal::dt(const Tensor& x, const Tensor& t) const {
  const FocalParts parts = focal_parts(*this, x, t);
  const Tensor loss = BceWithLogits{}.value(x, t), power = pow(parts.q, gamma);
  Tensor slope = neg(x * power);
  if (gamma != 0.0) slope = slope + loss * power_slope(*this, parts.q) * (parts.not_p - parts.p);
  slope = balanced(parts, slope);
  return alpha >= 0.0 ? slope + loss * power * (2.0 * alpha - 1.0) : slope;
}

}  // namespace loss_rules

template struct PointwiseLoss<loss_rules::Mse>;
template struct PointwiseLoss<loss_rules::L1>;
template struct PointwiseLoss<loss_rules::SmoothL1>;
template struct PointwiseLoss<loss_rules::Huber>;
template struct PointwiseLoss<loss_rules::BceWithLogits>;
template struct PointwiseLoss<loss_rules::Bce>;
template struct PointwiseLoss<loss_rules::KlDiv>;
template struct PointwiseLoss<loss_rules::Focal>;

}  // namespace ops

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options) {
  require(logits.defined() && target.defined(), "cross_entropy", "needs logits and a target, got {} and {}",
          to_string(logits), to_string(target));
  require(logits.rank() > 0, "cross_entropy", "expects logits [N,C], got {}", to_string(logits));
  const Index classes = logits.shape()[logits.rank() - 1];
  ops::require_smoothing("cross_entropy", options.label_smoothing);
  ops::require_weights("cross_entropy", options.class_weights, classes);
  Tensor loss;
  if (is_floating(target.dtype())) {
    require(is_floating(logits.dtype()), "cross_entropy", "expects floating logits, got {}",
            to_string(logits));
    require(target.shape() == logits.shape(), "cross_entropy",
            "logits {} need as many probabilities, the target is {}", to_string(logits), to_string(target));
    require(!options.ignore_index, "cross_entropy", "ignore_index {} has no meaning for probabilities",
            options.ignore_index.value_or(0));
    require(classes > 0, "cross_entropy", "logits {} have no class", to_string(logits));
    const Shape rows{logits.numel() / classes, classes};
    loss = apply(ops::SoftCrossEntropy{options.label_smoothing, options.reduce},
                 {reshape(logits, rows), reshape(target, rows), options.class_weights})
               .loss;
  } else {
    const ops::Rows rows = ops::rows_of_classes("cross_entropy", logits, target, options.ignore_index);
    loss = apply(ops::CrossEntropy{{options.label_smoothing, options.ignore_index}, options.reduce},
                 {rows.x, rows.target, options.class_weights})
               .loss;
  }
  return options.reduce == Reduce::none ? reshape(loss, logits.shape().without(logits.rank() - 1)) : loss;
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const CrossEntropyLossOptions& options) {
  require(options.label_smoothing == 0.0, "nll_loss", "label smoothing {} is for cross_entropy",
          options.label_smoothing);
  const ops::Rows rows = ops::rows_of_classes("nll_loss", log_probabilities, target, options.ignore_index);
  ops::require_weights("nll_loss", options.class_weights, rows.x.shape()[1]);
  const ops::NllLoss op{options.ignore_index, options.reduce, rows.x.shape()};
  const Tensor loss = apply(op, {rows.x, rows.target, options.class_weights}).loss;
  return options.reduce == Reduce::none ? reshape(loss, target.shape()) : loss;
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  return ops::pointwise_loss(ops::loss_rules::Mse{}, x, target, reduce);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  return ops::pointwise_loss(ops::loss_rules::L1{}, x, target, reduce);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduce reduce) {
  require(beta >= 0.0, "smooth_l1_loss", "beta {} is negative", beta);
  return ops::pointwise_loss(ops::loss_rules::SmoothL1{{}, beta}, x, target, reduce);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduce reduce) {
  require(delta > 0.0, "huber_loss", "delta {} is not positive", delta);
  return ops::pointwise_loss(ops::loss_rules::Huber{{}, delta}, x, target, reduce);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce) {
  return ops::pointwise_loss(ops::loss_rules::BceWithLogits{}, logits, target, reduce);
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& target, Reduce reduce) {
  return ops::pointwise_loss(ops::loss_rules::Bce{}, probabilities, target, reduce);
}

Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, Reduce reduce) {
  return ops::pointwise_loss(ops::loss_rules::KlDiv{}, log_probabilities, target, reduce);
}

Tensor focal_loss(const Tensor& logits, const Tensor& target, double alpha, double gamma, Reduce reduce) {
  require(alpha <= 1.0, "focal_loss", "alpha {} exceeds 1; a negative alpha switches balancing off", alpha);
  require(gamma >= 0.0, "focal_loss", "gamma {} is negative", gamma);
  return ops::pointwise_loss(ops::loss_rules::Focal{alpha, gamma}, logits, target, reduce);
}

OpInfos loss_ops() {
  return infos_of<
      ops::CrossEntropy, ops::LinearCrossEntropy, ops::SoftCrossEntropy, ops::NllLoss, ops::DiceLoss,
      ops::PointwiseLoss<ops::loss_rules::Mse>, ops::PointwiseLoss<ops::loss_rules::L1>,
      ops::PointwiseLoss<ops::loss_rules::SmoothL1>, ops::PointwiseLoss<ops::loss_rules::Huber>,
      ops::PointwiseLoss<ops::loss_rules::BceWithLogits>, ops::PointwiseLoss<ops::loss_rules::Bce>,
      ops::PointwiseLoss<ops::loss_rules::KlDiv>, ops::PointwiseLoss<ops::loss_rules::Focal>>();
}

}  // namespace tandem
