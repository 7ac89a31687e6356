#include "amp/plan/pai_policy.h"

#include <algorithm>
#include <functional>

#include "amp/plan/prediction.h"
#include "amp/plan/tf_policy.h"

namespace tandem::amp::plan {

namespace {

bool grows_from(const Op& op, const std::vector<bool>& low) {
  const auto is_low = [&](const Read& read) {
    return read.role == Role::data && low[static_cast<std::size_t>(read.op)];
  };
  if (op.op_kind == OpKind::adds) return std::ranges::any_of(op.reads, is_low);
  return !op.reads.empty() && is_low(op.reads.front());
}

// Ops come after their inputs, so one pass finds all; `keep` decides about each candidate.
std::vector<bool> spread(const Graph& graph,
                         const std::function<bool(std::vector<bool>& low, std::size_t op)>& keep) {
  std::vector<bool> low(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!may_lower(op)) continue;
    const bool pinned = op.pin.out.value_or(false);
    const bool candidate = is_product(op) || (grows(op) && grows_from(op, low));
    low[i] = pinned || (candidate && keep(low, i));
  }
  return low;
}

std::int64_t total(const Graph& graph, const std::vector<bool>& low) {
  return predict(graph, allowed_types(graph, low)).total();
}

}  // namespace

bool grows(const Op& op) {
  const OpKind kind = op.op_kind;
  return op.view || kind == OpKind::batch_norm || kind == OpKind::adds || kind == OpKind::selects ||
         kind == OpKind::folds;
}

std::vector<bool> pai_policy(const Graph& graph) {
  return spread(graph, [](std::vector<bool>&, std::size_t) { return true; });
}

std::vector<bool> priced_growth(const Graph& graph) {
  return spread(graph, [&](std::vector<bool>& low, std::size_t op) {
    // A view has no price, and always the type of its base.
    if (graph.ops[op].view) return true;
    const std::int64_t before = total(graph, low);
    low[op] = true;
    return total(graph, low) < before;
  });
}

}  // namespace tandem::amp::plan
