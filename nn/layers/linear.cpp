#include "nn/layers/linear.h"

#include "autograd/ops/matmul.h"
#include "core/error.h"

namespace tandem::nn {

Linear::Linear(Index in_features, Index out_features, const LinearOptions& options) {
  require(in_features > 0 && out_features > 0, "linear", "features must be positive, got {} → {}",
          in_features, out_features);
  const Shape shape{out_features, in_features};
  weight_ = add_parameter("weight", new_weight(shape, options.init));
  if (options.bias) bias_ = add_parameter("bias", new_bias(out_features, shape, options.init));
}

Linear::Linear(Parameter weight, Parameter bias) {
  require(weight.defined() && weight.value().rank() == 2, "linear", "a weight needs two axes, got {}",
          weight.defined() ? to_string(weight.value()) : "none");
  require(!bias.defined() || bias.value().shape() == Shape{weight.value().size(0)}, "linear",
          "bias {} does not fit weight {}", bias.defined() ? to_string(bias.value()) : "none",
          to_string(weight.value()));
  weight_ = add_parameter("weight", std::move(weight));
  if (bias.defined()) bias_ = add_parameter("bias", std::move(bias));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight_.tensor(), tensor_if_defined(bias_)); }

std::string Linear::describe() const {
  return fmt::format("Linear({} → {}{})", weight_.value().size(1), weight_.value().size(0),
                     bias_.defined() ? "" : ", no bias");
}

}  // namespace tandem::nn
