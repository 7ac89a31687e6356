#include "nn/layers/norm.h"

#include "autograd/ops/norm.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::nn {

LayerNorm::LayerNorm(const Shape& shape, const NormOptions& options) : shape_(shape), options_(options) {
  require(shape.rank() > 0 && shape.numel() > 0, "layer_norm",
          "needs positive extents to normalise over, got {}", to_string(shape));
  if (!options.affine) return;
  gamma_ = add_parameter("weight", constant_parameter(shape, 1.0));
  if (options.bias) beta_ = add_parameter("bias", constant_parameter(shape, 0.0));
}

void LayerNorm::require_fits(const Tensor& x) const {
  bool fits = x.rank() >= shape_.rank();
  for (int i = 1; fits && i <= shape_.rank(); ++i) fits = x.size(-i) == shape_.at(-i);
  require(fits, "layer_norm", "normalises over {}, input is {}", to_string(shape_), to_string(x.shape()));
}

Tensor LayerNorm::forward(const Tensor& x) {
  require_fits(x);
  return layer_norm(x, tensor_if_defined(gamma_), tensor_if_defined(beta_), shape_.rank(), options_.eps,
                    options_.result);
}

ResidualNormResult LayerNorm::of_sum(const Tensor& x, const Tensor& branch, ResidualNormOptions options) {
  require_fits(x);
  require(shape_.rank() == 1, "layer_norm", "sums are normalised over one axis, not over {}",
          to_string(shape_));
  options.eps = options_.eps;
  return residual_norm(x, branch, tensor_if_defined(gamma_), tensor_if_defined(beta_), options);
}

std::string LayerNorm::describe() const {
  return fmt::format("LayerNorm({}{})", to_string(shape_), options_.affine ? "" : ", no affine");
}

RmsNorm::RmsNorm(Index features, double eps, NormResult result)
    : features_(features), eps_(eps), result_(result) {
  require(features > 0, "rms_norm", "needs a positive number of features, got {}", features);
  weight_ = add_parameter("weight", constant_parameter({features}, 1.0));
}

Tensor RmsNorm::forward(const Tensor& x) {
  require(x.rank() >= 1 && x.size(-1) == features_, "rms_norm", "expects [...,{}], input is {}", features_,
          to_string(x.shape()));
  return rms_norm(x, weight_.tensor(), eps_, result_);
}

ResidualNormResult RmsNorm::of_sum(const Tensor& x, const Tensor& branch, ResidualNormOptions options) {
  options.rms = true;
  options.eps = eps_;
  return residual_norm(x, branch, weight_.tensor(), {}, options);
}

std::string RmsNorm::describe() const { return fmt::format("RmsNorm({})", features_); }

GroupNorm::GroupNorm(Index groups, Index channels, const NormOptions& options)
    : groups_(groups), channels_(channels), options_(options) {
  require(groups > 0 && channels > 0 && channels % groups == 0, "group_norm",
          "{} groups must divide {} channels", groups, channels);
  if (!options.affine) return;
  gamma_ = add_parameter("weight", constant_parameter({channels}, 1.0));
  beta_ = add_parameter("bias", constant_parameter({channels}, 0.0));
}

Tensor GroupNorm::forward(const Tensor& x) {
  require(x.rank() >= 2 && x.size(-1) == channels_, "group_norm", "expects [N,…,{}], input is {}", channels_,
          to_string(x.shape()));
  return group_norm(x, tensor_if_defined(gamma_), tensor_if_defined(beta_), groups_, options_.eps);
}

std::string GroupNorm::describe() const {
  return fmt::format("GroupNorm({} groups of {}{})", groups_, channels_,
                     options_.affine ? "" : ", no affine");
}

}  // namespace tandem::nn
