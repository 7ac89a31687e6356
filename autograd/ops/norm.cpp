#include "autograd/ops/norm.h"

#include <cmath>
#include <vector>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/norm_ops.h"
#include "autograd/ops/norm_peers.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/norm.h"

namespace tandem {

namespace ops {

namespace {

Axes all_but_last(const Tensor& x) {
  Axes axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

void check_vector(const OpInfo& info, const Tensor& t, Index channels, const char* what) {
  require(!t.defined() || (t.shape() == Shape{channels} && is_floating(t.dtype())), info.name,
          "{} must be a floating vector of {} elements, one for each channel, got {}", what, channels,
          to_string(t));
}

// Statistics are not inputs of the op, so apply has not checked their device.
void check_statistic(const OpInfo& info, const Tensor& t, const Tensor& x, const char* what) {
  check_vector(info, t, x.size(-1), what);
  require(!t.defined() || t.device() == x.device(), info.name, "{} and x live on different devices", what);
}

void check_batch_norm(const OpInfo& info, const BatchNormTensors& op, const BatchNormTensors::In& in) {
  require(in.x.defined() && in.x.rank() >= 1 && is_floating(in.x.dtype()), info.name,
          "x must be floating and channels-last, got {}", to_string(in.x));
  const Index channels = in.x.size(-1);
  require(!in.residual.defined() || in.residual.shape() == in.x.shape(), info.name,
          "residual {} must be like x {}", to_string(in.residual), to_string(in.x));
  check_vector(info, in.gamma, channels, "gamma");
  check_vector(info, in.beta, channels, "beta");
  check_statistic(info, op.statistics.mean, in.x, "running mean");
  check_statistic(info, op.statistics.var, in.x, "running variance");
  check_statistic(info, op.statistics.next_mean, in.x, "next mean");
  check_statistic(info, op.statistics.next_var, in.x, "next variance");
}

void check_train(const BatchNormTrain& op, const BatchNormTensors::In& in) {
  check_batch_norm(BatchNormTrain::info, op, in);
  const Index channels = in.x.size(-1);
  require(channels == 0 || op.peers || in.x.numel() / channels > 1, BatchNormTrain::info.name,
          "{} has {} value(s) per channel, statistics need at least 2; use a larger batch or evaluation mode",
          to_string(in.x), channels == 0 ? 0 : in.x.numel() / channels);
  const Tensor& sums = op.options.sums;
  require(!sums.defined() || ((sums.dtype() == DType::f32 || sums.dtype() == DType::f64) &&
                              sums.shape() == Shape{2, channels} && sums.device() == in.x.device()),
          BatchNormTrain::info.name, "sums must be f32 or f64 [2,{}] on the device of x, got {}", channels,
          to_string(sums));
  const BatchNormStatistics& s = op.statistics;
  require((!s.next_mean.defined() || s.mean.defined()) && (!s.next_var.defined() || s.var.defined()),
          BatchNormTrain::info.name, "next statistics need the live ones");
  require(!RecordLater::active() || !(s.next_mean.defined() || s.next_var.defined()),
          BatchNormTrain::info.name,
          "a recomputed part runs twice, and would update the running statistics twice; leave batch norm out "
          "of it, or freeze its statistics (nn::KeepStatistics)");
}

void check_infer(const BatchNormInfer& op, const BatchNormTensors::In& in) {
  check_batch_norm(BatchNormInfer::info, op, in);
  require(op.statistics.mean.defined() && op.statistics.var.defined(), BatchNormInfer::info.name,
          "running statistics are absent; train first, or use the statistics of the batch");
}

Tensor new_mask(Context& context, const Tensor& x) {
  return context.empty(Shape{(x.numel() + 7) / 8}, DType::u8);
}

BatchNormForward forward_arguments(const BatchNormTensors& op, const BatchNormTensors::In& in,
                                   const Tensor& y) {
  BatchNormForward args;
  args.x = in.x;
  args.residual = in.residual;
  args.gamma = in.gamma;
  args.beta = in.beta;
  args.y = y;
  args.running_mean = op.statistics.mean;
  args.running_var = op.statistics.var;
  args.eps = op.options.eps;
  args.momentum = op.options.momentum;
  args.relu = op.options.relu;
  return args;
}

// A parameter's gradient goes into its sink, or into new memory of the statistics' dtype.
GradOutput parameter_destination(const Needs& needs, std::size_t input, const Tensor& statistic) {
  if (!needs[input]) return {};
  if (const GradOutput* sink = needs.sink(input)) return *sink;
  return {Tensor::empty(statistic.shape(), statistic.options())};
}

// Reuses dy's memory for dresidual or dx if dy has no other reader.
BatchNormBackward backward_arguments(const BatchNormTensors& op, const BatchNormTensors::Saved& saved,
                                     const Tensor& dy, const Needs& needs) {
  bool dy_is_free = needs.may_overwrite(dy);
  BatchNormBackward args;
  args.x = saved.x;
  args.gamma = saved.gamma;
  args.mean = saved.mean;
  args.rstd = saved.rstd;
  args.mask = saved.mask;
  args.dy = dy;
  args.relu = op.options.relu;
  if (needs[1]) {
    if (const GradOutput* sink = needs.sink(1)) {
      args.dresidual = sink->tensor;
      args.accumulate_dresidual = sink->accumulate;
    } else if (!op.options.relu || dy_is_free) {
      args.dresidual = dy.detach();
      dy_is_free = false;
    } else {
      args.dresidual = Tensor::empty(dy.shape(), dy.options());
    }
  }
  if (needs[0]) {
    if (const GradOutput* sink = needs.sink(0)) {
      args.dx = sink->tensor;
      args.accumulate_dx = sink->accumulate;
    } else if (dy_is_free && dy.dtype() == saved.x.dtype()) {
      args.dx = dy.detach();
    } else {
      args.dx = Tensor::empty(saved.x.shape(), saved.x.options());
    }
  }
  const GradOutput dgamma = parameter_destination(needs, 2, saved.mean);
  const GradOutput dbeta = parameter_destination(needs, 3, saved.mean);
  args.dgamma = dgamma.tensor;
  args.accumulate_dgamma = dgamma.accumulate;
  args.dbeta = dbeta.tensor;
  args.accumulate_dbeta = dbeta.accumulate;
  return args;
}

BatchNormTensors::In batch_norm_gradients(const BatchNormTensors& op, const BatchNormTensors::Saved& saved,
                                          const Tensor& dy, const Needs& needs, bool frozen) {
  BatchNormBackward args = backward_arguments(op, saved, dy, needs);
  args.frozen = frozen;
  backend_for(dy.device()).norm().batch_norm_backward(args);
  return {args.dx, args.dresidual, args.dgamma, args.dbeta};
}

// Writes f64 values to a parameter's gradient, or adds them.
void put_gradient(const Tensor& values, const Tensor& gradient, bool accumulate) {
  if (!gradient.defined()) return;
  visit_floating(gradient.dtype(), [&]<class S>(TypeTag<S>) {
    S* const to = gradient.data<S>();
    const double* const from = values.data<double>();
    for (Index c = 0; c < values.numel(); ++c)
      to[c] = convert<S>(accumulate ? convert<double>(to[c]) + from[c] : from[c]);
  });
}

// Gradients over the shards of all peers. The kernel with frozen statistics computes this shard's residual
// and parameter gradients, and the part of dx without sums; the sums over all shards give the rest. Between
// the two passes 16-bit dx is f32, so that it is rounded once.
BatchNormTensors::In shared_gradients(const BatchNormTrain& op, const BatchNormTensors::Saved& saved,
                                      const Tensor& dy, const Needs& needs) {
  const BatchNormBackward wanted = backward_arguments(op, saved, dy, needs);
  BatchNormBackward args = wanted;
  const TensorOptions wide{.dtype = DType::f64};
  args.frozen = true;
  args.dgamma = Tensor::zeros(saved.mean.shape(), wide);
  args.dbeta = Tensor::zeros(saved.mean.shape(), wide);
  args.accumulate_dgamma = args.accumulate_dbeta = false;
  Backend& backend = backend_for(dy.device());
  if (wanted.dx.defined() && is_16bit(wanted.dx.dtype())) {
    args.dx = Tensor::empty(wanted.dx.shape(), {.dtype = DType::f32});
    if (args.accumulate_dx) backend.cast(wanted.dx, args.dx);
  }
  backend.norm().batch_norm_backward(args);
  put_gradient(args.dgamma, wanted.dgamma, wanted.accumulate_dgamma);
  put_gradient(args.dbeta, wanted.dbeta, wanted.accumulate_dbeta);
  add_shared_gradient(*op.peers, saved, args.dgamma, args.dbeta, args.dx, wanted.dx);
  return {wanted.dx, wanted.dresidual, wanted.dgamma, wanted.dbeta};
}

// act(centred·rstd·gamma + beta + residual) in the dtype of the fused op.
Tensor composed_tail(const BatchNormTensors& op, const BatchNormTensors::In& in, const Tensor& normal) {
  Tensor y = in.gamma.defined() ? mul(normal, in.gamma) : normal;
  if (in.beta.defined()) y = add(y, in.beta);
  if (in.residual.defined()) y = add(y, in.residual);
  if (op.options.relu) y = relu(y);
  return cast(y, in.residual.defined() ? promote(in.x.dtype(), in.residual.dtype()) : in.x.dtype());
}

// next ← (1-momentum)·running + momentum·batch, untaped.
void write_shadow(const Tensor& running, const Tensor& batch, double momentum, const Tensor& next) {
  if (!next.defined()) return;
  const Tensor operands[] = {running, batch.detach()};
  backend_for(next.device())
      .elementwise()
      .pointwise(formula_id<formulas::LerpScalar>(), {momentum}, operands, next);
}

// The statistics of all peers replace the running ones in the writing pass.
Result shared_forward(const BatchNormTrain& op, Context& context, BatchNormTensors::Saved& saved,
                      const BatchNormTensors::In& in) {
  const SharedMoments moments = shared_moments(*op.peers, in.x, op.options.sums);
  Result out{context.empty(in.x.shape())};
  saved.x = in.x;
  saved.gamma = in.gamma;
  saved.mean = context.empty(moments.mean.shape(), wide_of(in.x.dtype()));
  saved.rstd = context.empty(moments.mean.shape(), wide_of(in.x.dtype()));
  if (op.options.relu) saved.mask = new_mask(context, in.x);
  const auto put = [&](const Tensor& to, const auto& value) {
    if (!to.defined()) return;
    visit_floating(to.dtype(), [&]<class S>(TypeTag<S>) {
      for (Index c = 0; c < to.numel(); ++c) to.data<S>()[c] = convert<S>(value(c));
    });
  };
  const double *const mean = moments.mean.data<double>(), *const var = moments.var.data<double>();
  const auto moved = [&](const Tensor& running, const double* batch, double unbiased) {
    return
        [=, &op, before = running.defined() ? running.to_vector<double>() : std::vector<double>()](Index c) {
          const double momentum = op.options.momentum;
          return (1.0 - momentum) * before[static_cast<std::size_t>(c)] + momentum * (batch[c] * unbiased);
        };
  };
  put(saved.mean, [&](Index c) { return mean[c]; });
  put(saved.rstd, [&](Index c) { return 1.0 / std::sqrt(var[c] + op.options.eps); });
  const BatchNormStatistics& statistics = op.statistics;
  put(statistics.next_mean, moved(statistics.mean, mean, 1.0));
  put(statistics.next_var, moved(statistics.var, var, moments.count / (moments.count - 1.0)));
  BatchNormForward args = forward_arguments(op, in, out.y);
  args.running_mean = moments.mean;
  args.running_var = moments.var;
  args.mask = saved.mask;
  context.backend.norm().batch_norm_infer(args);
  return out;
}

}  // namespace

Result BatchNormTrain::forward(Context& context, Saved& saved, const In& in) const {
  check_train(*this, in);
  if (peers) return shared_forward(*this, context, saved, in);
  const Index channels = in.x.size(-1);
  Out out{context.empty(in.x.shape())};
  saved.x = in.x;
  saved.gamma = in.gamma;
  saved.mean = context.empty(Shape{channels}, wide_of(in.x.dtype()));
  saved.rstd = context.empty(Shape{channels}, wide_of(in.x.dtype()));
  if (options.relu) saved.mask = new_mask(context, in.x);
  BatchNormForward args = forward_arguments(*this, in, out.y);
  args.mean = saved.mean;
  args.rstd = saved.rstd;
  args.mask = saved.mask;
  args.next_mean = statistics.next_mean;
  args.next_var = statistics.next_var;
  args.sums = options.sums;
  context.backend.norm().batch_norm_train(args);
  return out;
}

BatchNormTensors::In BatchNormTrain::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  if (peers) return shared_gradients(*this, saved, dy.y, needs);
  return batch_norm_gradients(*this, saved, dy.y, needs, /*frozen=*/false);
}

Result BatchNormTrain::composed(const BatchNormTrain& op, const In& in) {
  check_train(op, in);
  require(!op.peers, info.name,
          "statistics over several processes (parallel.sync_batch_norm) have no second derivative; leave "
          "the key out, or use a per-sample norm");
  const Tensor x = cast(in.x, wide_of(in.x.dtype()));
  const Axes axes = all_but_last(x);
  const Tensor batch_mean = mean(x, axes);
  const Tensor centred = sub(x, batch_mean);
  const Tensor batch_var = mean(mul(centred, centred), axes);
  const Index positions = x.numel() / std::max<Index>(1, x.size(-1));
  const auto rows = static_cast<double>(positions);
  {
    const NoGrad no_grad;
    write_shadow(op.statistics.mean, batch_mean, op.options.momentum, op.statistics.next_mean);
    write_shadow(op.statistics.var, mul(batch_var.detach(), rows / (rows - 1.0)), op.options.momentum,
                 op.statistics.next_var);
  }
  return {composed_tail(op, in, mul(centred, rsqrt(add(batch_var, op.options.eps))))};
}

Result BatchNormInfer::forward(Context& context, Saved& saved, const In& in) const {
  check_infer(*this, in);
  Out out{context.empty(in.x.shape())};
  BatchNormForward args = forward_arguments(*this, in, out.y);
  const bool recorded = GradMode::records() && (in.x.requires_grad() || in.residual.requires_grad() ||
                                                in.gamma.requires_grad() || in.beta.requires_grad());
  if (recorded) {
    // Copies, because the live statistics may change before backward.
    const DType dtype = wide_of(in.x.dtype());
    saved.x = in.x;
    saved.gamma = in.gamma;
    saved.mean = context.converted(statistics.mean, dtype);
    saved.rstd = context.empty(statistics.var.shape(), dtype);
    context.backend.elementwise().pointwise(formula_id<formulas::AddScalar>(), {options.eps},
                                            {&statistics.var, 1}, saved.rstd);
    context.backend.elementwise().pointwise(formula_id<formulas::Rsqrt>(), {}, {&saved.rstd, 1}, saved.rstd);
    if (options.relu) args.mask = saved.mask = new_mask(context, in.x);
  }
  context.backend.norm().batch_norm_infer(args);
  return out;
}

BatchNormTensors::In BatchNormInfer::backward(const Saved& saved, const Out& dy, const Needs& needs) const {
  return batch_norm_gradients(*this, saved, dy.y, needs, /*frozen=*/true);
}

Result BatchNormInfer::composed(const BatchNormInfer& op, const In& in) {
  check_infer(op, in);
  const DType dtype = wide_of(in.x.dtype());
  const Tensor centred = sub(cast(in.x, dtype), cast(op.statistics.mean.detach(), dtype));
  const Tensor rstd = rsqrt(add(cast(op.statistics.var.detach(), dtype), op.options.eps));
  return {composed_tail(op, in, mul(centred, rstd))};
}

}  // namespace ops

Tensor batch_norm_train(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormStatistics& statistics, const BatchNormOptions& options,
                        const Tensor& residual) {
  ops::BatchNormTrain op;
  op.statistics = statistics;
  op.options = options;
  op.peers = BatchNormPeersScope::current();
  return apply(op, {x, residual, gamma, beta}).y;
}

Tensor batch_norm_infer(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormStatistics& statistics, const BatchNormOptions& options,
                        const Tensor& residual) {
  ops::BatchNormInfer op;
  op.statistics = statistics;
  op.options = options;
  return apply(op, {x, residual, gamma, beta}).y;
}

OpInfos norm_ops() {
  return infos_of<ops::BatchNormTrain, ops::BatchNormInfer, ops::LayerNorm, ops::RmsNorm, ops::ResidualNorm,
                  ops::GroupNorm>();
}

}  // namespace tandem
