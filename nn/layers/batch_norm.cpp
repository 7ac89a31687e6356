#include "nn/layers/batch_norm.h"

#include "core/error.h"
#include "nn/device.h"
#include "nn/init.h"

namespace tandem::nn {

namespace {
Tensor statistic_memory(Index channels, double value) {
  require(channels > 0, "batch_norm", "channels must be positive, got {}", channels);
  return Tensor::full({channels}, value,
                      {.dtype = DType::f32, .device = BuildDevice::current(), .kind = MemoryKind::weights});
}
}  // namespace

BatchNorm::BatchNorm(Index channels, const BatchNormLayerOptions& options)
    : channels_(channels),
      options_{.eps = options.eps, .momentum = options.momentum, .relu = options.relu},
      mean_(add_statistic("running_mean", statistic_memory(channels, 0.0))),
      var_(add_statistic("running_var", statistic_memory(channels, 1.0))),
      batches_tracked_(add_counter("num_batches_tracked")) {
  require(options.eps > 0.0, "batch_norm", "eps must be positive, got {}", options.eps);
  require(options.momentum >= 0.0 && options.momentum <= 1.0, "batch_norm",
          "momentum must lie in [0, 1], got {}", options.momentum);
  if (!options.affine) return;
  gamma_ = add_parameter("weight", constant_parameter({channels}, options.zero_gamma ? 0.0 : 1.0));
  beta_ = add_parameter("bias", constant_parameter({channels}, 0.0));
}

Tensor BatchNorm::normalise(const Tensor& x, const Tensor& residual, const Tensor& sums) {
  const Tensor gamma = tensor_if_defined(gamma_);
  const Tensor beta = tensor_if_defined(beta_);
  if (!training())
    return batch_norm_infer(x, gamma, beta, {mean_.live, var_.live, mean_.next, var_.next}, options_,
                            residual);
  BatchNormOptions options = options_;
  options.sums = sums;
  if (keeps_statistics()) return batch_norm_train(x, gamma, beta, {}, options, residual);
  ++batches_tracked_;
  // `next` continues from itself, so every micro-batch of a step counts.
  return batch_norm_train(x, gamma, beta, {mean_.next, var_.next, mean_.next, var_.next}, options, residual);
}

Tensor BatchNorm::forward(const Tensor& x) { return normalise(x, {}); }

Tensor BatchNorm::forward_all(const TensorList& xs) {
  require(xs.size() == 1 || xs.size() == 2, "batch_norm", "takes x and an optional residual, got {} inputs",
          xs.size());
  return normalise(xs[0], xs.size() == 2 ? xs[1] : Tensor{});
}

Tensor BatchNorm::operator()(const Tensor& x, const Tensor& residual, const Tensor& sums) {
  return observed([&] { return normalise(x, residual, sums); });
}

std::string BatchNorm::describe() const {
  return fmt::format("BatchNorm({}{}{})", channels_, options_.relu ? ", relu" : "",
                     gamma_.defined() ? "" : ", no affine");
}

}  // namespace tandem::nn
