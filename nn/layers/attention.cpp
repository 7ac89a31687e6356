#include "nn/layers/attention.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/matmul.h"
#include "core/error.h"

namespace tandem::nn {

namespace {

constexpr const char* kSelfAttention = "self_attention";

}  // namespace

SelfAttention::SelfAttention(Index features, const SelfAttentionOptions& options)
    : features_(features), options_(options) {
  require(features > 0 && options.heads > 0, kSelfAttention,
          "features and heads must be positive, got {} and {}", features, options.heads);
  require(features % options.heads == 0, kSelfAttention, "{} heads do not divide {} features", options.heads,
          features);
  require(options.dropout >= 0.0 && options.dropout < 1.0, kSelfAttention,
          "dropout must lie in [0, 1), got {}", options.dropout);
  in_weight_ =
      add_parameter("in_proj_weight", new_weight({3 * features, features}, WeightInit::xavier_uniform));
  if (options.bias) in_bias_ = add_parameter("in_proj_bias", constant_parameter({3 * features}, 0.0));
  out_ = add_child("out_proj", std::make_shared<Linear>(features, features, LinearOptions{options.bias}));
  if (options.bias) init::zeros(out_->bias().value());
}

Tensor SelfAttention::forward(const Tensor& x) {
  require(x.rank() == 3 && x.size(2) == features_, kSelfAttention, "expects [N,T,{}], got {}", features_,
          to_string(x));
  return (*out_)(multi_head_attention(
      linear(x, in_weight_.tensor(), tensor_if_defined(in_bias_)), {.queries = options_.heads},
      {.causal = options_.causal, .dropout = options_.dropout, .training = training()}));
}

std::string SelfAttention::describe() const {
  return fmt::format("SelfAttention({} features, {} head{}{}{}{})", features_, options_.heads,
                     options_.heads == 1 ? "" : "s", options_.causal ? ", causal" : "",
                     options_.dropout > 0.0 ? fmt::format(", dropout {}", options_.dropout) : "",
                     options_.bias ? "" : ", no bias");
}

}  // namespace tandem::nn
