#include "autograd/ops/all_ops.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "autograd/apply.h"
#include "core/error.h"

namespace tandem {

OpInfos all_op_infos() {
  OpInfos infos;
  for (const auto& family :
       {attention_ops, boxes_ops, conv_ops, elementwise_ops, index_ops, loss_ops, matmul_ops, norm_ops,
        pairs_ops, pool_ops, random_ops, reduce_ops, rnn_ops, shape_ops, softmax_ops})
    std::ranges::copy(family(), std::back_inserter(infos));
  const auto name = [](const OpInfo* info) { return std::string_view(info->name); };
  std::ranges::sort(infos, {}, name);
  const auto twice = std::ranges::adjacent_find(infos, {}, name);
  ensure(twice == infos.end(), "ops", "two ops are called {}", twice == infos.end() ? "" : (*twice)->name);
  return infos;
}

const OpInfo* find_op(std::string_view name) {
  for (const auto& infos : {all_op_infos(), applied_ops()})
    for (const OpInfo* info : infos)
      if (name == info->name) return info;
  return nullptr;
}

std::vector<std::string> op_names() {
  std::set<std::string> names;
  for (const auto& infos : {all_op_infos(), applied_ops()})
    for (const OpInfo* info : infos) names.emplace(info->name);
  return {names.begin(), names.end()};
}

}  // namespace tandem
