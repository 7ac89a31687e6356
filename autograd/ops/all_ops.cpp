#include "autograd/ops/all_ops.h"

#include <algorithm>
#include <set>

#include "autograd/apply.h"
#include "core/error.h"

namespace tandem {

std::vector<const OpInfo*> all_op_infos() {
  std::vector<const OpInfo*> infos;
  for_each_op(AllOps{}, [&]<class Op>() { infos.push_back(&Op::info); });
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
