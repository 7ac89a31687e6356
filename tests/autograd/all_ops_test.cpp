// The list of all ops: complete, without repetition, and each with the cast rule of the design.
#include "autograd/ops/all_ops.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

using namespace tandem;

TEST_CASE("every op is listed once, by name", "[all_ops]") {
  const auto infos = all_op_infos();
  CHECK(!infos.empty());
  for (std::size_t i = 1; i < infos.size(); ++i) CHECK(std::string(infos[i - 1]->name) < infos[i]->name);
}

TEST_CASE("ops stand under the cast rule of the design's table", "[all_ops]") {
  const std::map<CastRule, std::vector<std::string>> table = {
      {CastRule::lower, {"conv2d", "conv_transpose2d", "linear", "matmul", "prelu"}},
      {CastRule::fp32,
       {"exp",
        "expm1",
        "log",
        "log1p",
        "pow",
        "reciprocal",
        "rsqrt",
        "softplus",
        "softmax",
        "log_softmax",
        "sum",
        "mean",
        "prod",
        "cumsum",
        "logsumexp",
        "layer_norm",
        "group_norm",
        "norm",
        "cross_entropy",
        "soft_cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "bce_with_logits",
        "focal_loss",
        "dice_loss",
        "topk",
        "sort"}},
      {CastRule::widest,
       {"add", "sub", "mul", "div", "concat", "stack", "where", "less", "equal", "scatter_add"}},
      {CastRule::neutral,
       {"relu", "tanh", "sigmoid", "gelu", "max_pool2d", "avg_pool2d", "dropout", "reshape", "slice", "pad",
        "max", "min", "embedding", "batch_norm_train", "batch_norm_infer", "permute", "gather"}},
      {CastRule::banned, {"bce_loss"}},
      {CastRule::none, {"cast", "random_normal", "random_uniform"}},
  };
  std::map<std::string, CastRule> rules;
  for (const OpInfo* info : all_op_infos()) rules[info->name] = info->rule;
  for (const auto& [rule, names] : table) {
    for (const std::string& name : names) {
      INFO(name << ", " << name_of(rule));
      const auto found = rules.find(name);
      REQUIRE(found != rules.end());
      CHECK(std::string(name_of(found->second)) == name_of(rule));
    }
  }
}
