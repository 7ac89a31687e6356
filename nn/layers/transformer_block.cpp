#include "nn/layers/transformer_block.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/pairs.h"
#include "autograd/ops/random.h"
#include "core/error.h"

namespace tandem::nn {

namespace {

constexpr const char* kBlock = "transformer_block";

const char* name_of(BlockActivation activation) {
  constexpr const char* names[] = {"gelu", "gelu_tanh", "relu", "swiglu"};
  return names[static_cast<int>(activation)];
}

Tensor activated(const Tensor& x, BlockActivation activation) {
  switch (activation) {
    case BlockActivation::gelu:
      return gelu(x);
    case BlockActivation::gelu_tanh:
      return gelu(x, GeluForm::tanh);
    case BlockActivation::relu:
      return relu(x);
    case BlockActivation::swiglu:
      break;
  }
  return swiglu(x);
}

}  // namespace

std::shared_ptr<FeatureNorm> make_norm(BlockNorm norm, Index features, double eps, bool bias) {
  if (norm == BlockNorm::rms) return std::make_shared<RmsNorm>(features, eps, NormResult::for_product);
  return std::make_shared<LayerNorm>(
      features, NormOptions{.eps = eps, .bias = bias, .result = NormResult::for_product});
}

namespace {
// x in the type of sums.
Tensor residual_of(const Residual& in, const ResidualOptions& options) {
  return options.wide || !in.branch.defined() ? in.x : cast(in.x, in.branch.dtype());
}
}  // namespace

Tensor joined(const Residual& in, const ResidualOptions& options) {
  if (!in.branch.defined()) return in.x;
  const Tensor sum = add(residual_of(in, options), dropout(in.branch, options.dropout, options.training));
  return options.wide ? sum : cast(sum, in.branch.dtype());
}

ResidualNormResult normed(FeatureNorm& norm, const Residual& in, const ResidualOptions& options, bool wide) {
  if (!in.branch.defined()) return {in.x, norm(in.x)};
  return norm(residual_of(in, options), in.branch,
              {.dropout = options.dropout, .training = options.training, .wide = wide});
}

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options, const BlockNames& names)
    : options_(options) {
  require(options.width > 0, kBlock, "the width must be positive, got {}", options.width);
  if (options_.inner == 0) options_.inner = 4 * options.width;
  require(options_.inner > 0, kBlock, "the inner width must be positive, got {}", options_.inner);
  for (const double p : {options.dropout, options.inner_dropout})
    require(p >= 0.0 && p < 1.0, kBlock, "dropout must lie in [0, 1), got {}", p);
  const auto add_norm = [&](const std::string& name) {
    return add_child_at(name, make_norm(options.norm, options.width, options.eps, options.bias));
  };
  if (options.norm_first) norm1_ = add_norm(names.norm1);
  attention_ = add_child_at(names.attention,
                            std::make_shared<SelfAttention>(
                                options.width, SelfAttentionOptions{.heads = options.heads,
                                                                    .bias = options.bias,
                                                                    .causal = options.causal,
                                                                    .dropout = options.attention_dropout,
                                                                    .kv_heads = options.kv_heads,
                                                                    .names = names.projections}));
  if (!options.norm_first) norm1_ = add_norm(names.norm1);
  if (options.cross) {
    cross_norm_ = add_norm(names.cross_norm);
    cross_ = add_child_at(names.cross,
                          std::make_shared<CrossAttention>(
                              options.width, CrossAttentionOptions{.heads = options.heads,
                                                                   .bias = options.bias,
                                                                   .dropout = options.attention_dropout,
                                                                   .names = names.projections}));
  }
  if (options.norm_first) norm2_ = add_norm(names.norm2);
  const Index gated = options.activation == BlockActivation::swiglu ? 2 : 1;
  inner_ = add_child_at(names.inner, std::make_shared<Linear>(options.width, gated * options_.inner,
                                                              LinearOptions{options.bias}));
  outer_ = add_child_at(names.outer,
                        std::make_shared<Linear>(options_.inner, options.width, LinearOptions{options.bias}));
  if (!options.norm_first) norm2_ = add_norm(names.norm2);
  set_recompute(options.recompute);
}

void TransformerBlock::set_recompute(Recompute part) {
  options_.recompute = part;
  recomputed_.clear();
  const auto add = [&](Module& of) {
    of.visit([&](const std::string&, Module& module) {
      for (const auto& [name, parameter] : module.own_parameters()) recomputed_.push_back(parameter);
    });
  };
  if (part == Recompute::block) add(*this);
  if (part == Recompute::mlp) {
    add(*inner_);
    add(*outer_);
  }
}

Tensor TransformerBlock::forward(const Tensor& x) {
  return joined(pass({x}, {}, {}), {options_.dropout, training(), options_.wide_residual});
}

Residual TransformerBlock::pass(const Residual& in, const SelfAttentionCall& call,
                                const AttentionMemory& memory) {
  // A second pass would append to a cache or past again.
  if (!recomputes(Recompute::block) || call.cache || call.past) return run(in, call, memory);
  const TensorList out = recomputed(
      [this, call, lengths = memory.lengths](const TensorList& given) {
        const auto [x, branch] = run({given[0], given[1]}, call, {given[2], given[3], lengths});
        return TensorList{x, branch};
      },
      {in.x, in.branch, memory.keys, memory.values}, recomputed_);
  return {out[0], out[1]};
}

AttentionMemory TransformerBlock::memory(const Tensor& x, const Tensor& lengths) {
  ensure(cross_ != nullptr, kBlock, "has no cross-attention");
  return cross_->memory(x, lengths);
}

Residual TransformerBlock::run(const Residual& in, const SelfAttentionCall& call,
                               const AttentionMemory& memory) {
  const ResidualOptions of_sums{options_.dropout, training(), options_.wide_residual};
  Residual stream = in;
  const auto add_branch = [&](FeatureNorm& norm, const auto& branch) {
    if (options_.norm_first) {
      const ResidualNormResult read = normed(norm, stream, of_sums);
      stream = {read.sum, branch(read.normed)};
    } else {
      const Tensor x = joined(stream, of_sums);
      stream = {normed(norm, {x, branch(x)}, of_sums, /*wide=*/true).normed};
    }
  };
  add_branch(*norm1_, [&](const Tensor& x) { return (*attention_)(x, call); });
  if (cross_) add_branch(*cross_norm_, [&](const Tensor& x) { return (*cross_)(x, memory); });
  add_branch(*norm2_, [&](const Tensor& x) { return perceptron(x); });
  return stream;
}

Tensor TransformerBlock::perceptron(const Tensor& x) {
  const auto run = [this](const TensorList& in) {
    const Tensor inner = activated((*inner_)(in[0]), options_.activation);
    return TensorList{(*outer_)(dropout(inner, options_.inner_dropout, training()))};
  };
  return (recomputes(Recompute::mlp) ? recomputed(run, {x}, recomputed_) : run({x}))[0];
}

std::string TransformerBlock::describe() const {
  return fmt::format("TransformerBlock({} features, {}-norm, {} {}{})", options_.width,
                     options_.norm_first ? "pre" : "post", options_.inner, name_of(options_.activation),
                     options_.dropout > 0.0 ? fmt::format(", dropout {}", options_.dropout) : "");
}

}  // namespace tandem::nn
