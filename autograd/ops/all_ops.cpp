#include "autograd/ops/all_ops.h"

#include <algorithm>
#include <string_view>

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

}  // namespace tandem
