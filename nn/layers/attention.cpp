#include "nn/layers/attention.h"

#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

MultiHeadLayer::MultiHeadLayer(const char* name, Index features, const SelfAttentionOptions& options)
    : name_(name), features_(features), options_(options) {
  require(features > 0 && options.heads > 0, name, "features and heads must be positive, got {} and {}",
          features, options.heads);
  require(features % options.heads == 0, name, "{} heads do not divide {} features", options.heads, features);
  if (options_.kv_heads == 0) options_.kv_heads = options.heads;
  require(options_.kv_heads > 0 && options.heads % options_.kv_heads == 0, name,
          "{} heads of keys and values do not divide {} heads", options_.kv_heads, options.heads);
  require(options.dropout >= 0.0 && options.dropout < 1.0, name, "dropout must lie in [0, 1), got {}",
          options.dropout);
  const Index projected = features + 2 * options_.kv_heads * (features / options.heads);
  in_weight_ =
      add_parameter_at(options.names.weight, new_weight({projected, features}, WeightInit::xavier_uniform));
  if (options.bias) in_bias_ = add_parameter_at(options.names.bias, constant_parameter({projected}, 0.0));
  out_ = add_child_at(options.names.out,
                      std::make_shared<Linear>(features, features, LinearOptions{options.bias}));
  if (options.bias) init::zeros(out_->bias().value());
}

void MultiHeadLayer::require_tokens(const Tensor& x) const {
  require(x.defined() && x.rank() == 3 && x.size(2) == features_, name_, "expects [N,T,{}], got {}",
          features_, to_string(x));
}

Tensor heads_apart(const Tensor& x, Index heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

Tensor MultiHeadLayer::attended(const Tensor& queries, const PastKeys& to, const AttentionOptions& options) {
  const Tensor y =
      scaled_dot_product_attention(heads_apart(queries, options_.heads), to.keys, to.values, options);
  return (*out_)(reshape(permute(y, {0, 2, 1, 3}), queries.shape()));
}

Tensor SelfAttention::attend(const Tensor& x, const SelfAttentionCall& call) {
  require_tokens(x);
  const Heads heads{.queries = options_.heads, .keys = options_.kv_heads};
  AttentionOptions options{.lengths = call.lengths,
                           .causal = options_.causal,
                           .dropout = options_.dropout,
                           .training = training(),
                           .alibi = call.alibi};
  const Tensor projection = linear(x, in_weight_.tensor(), tensor_if_defined(in_bias_));
  if (!call.rotary_table.defined() && !call.cache && !call.past)
    return (*out_)(multi_head_attention(projection, heads, options));

  const Index of_keys = heads.keys * (features_ / heads.queries);
  const TensorList parts = split(projection, {features_, of_keys, of_keys}, 2);
  Tensor query = parts[0], key = parts[1], value = parts[2];
  if (call.rotary_table.defined()) {
    RotaryOptions turn = call.rotary;
    turn.heads = heads.queries;
    query = rotary(query, call.rotary_table, turn);
    turn.heads = heads.keys;
    key = rotary(key, call.rotary_table, turn);
  }
  ensure(options_.causal || (!call.cache && !call.past), name_, "only causal attention has a cache");
  if (call.past) {
    PastKeys& all = call.past->at(static_cast<std::size_t>(call.layer));
    all = {concat({all.keys, heads_apart(key, heads.keys)}, 2),
           concat({all.values, heads_apart(value, heads.keys)}, 2)};
    return attended(query, all, options);
  }
  if (call.cache) {
    const KeyValueCache::Seen seen = call.cache->append(call.layer, key, value);
    key = seen.keys;
    value = seen.values;
    options.keys = seen.count;
    options.lengths = seen.lengths;
    options.causal = seen.causal;
  }
  return (*out_)(multi_head_attention(query, key, value, heads, options));
}

std::string MultiHeadLayer::described(const char* layer) const {
  return fmt::format(
      "{}({} features, {} head{}{}{}{}{})", layer, features_, options_.heads, options_.heads == 1 ? "" : "s",
      options_.kv_heads == options_.heads ? "" : fmt::format(", {} of keys", options_.kv_heads),
      options_.causal ? ", causal" : "",
      options_.dropout > 0.0 ? fmt::format(", dropout {}", options_.dropout) : "",
      options_.bias ? "" : ", no bias");
}

}  // namespace tandem::nn
