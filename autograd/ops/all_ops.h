// All ops, for tools that list them and for tests that find ops without a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autograd/op.h"

namespace tandem {

using OpInfos = std::vector<const OpInfo*>;

template <class... Ops>
OpInfos infos_of() {
  return {&Ops::info...};
}

// The ops of a family, listed beside them in autograd/ops/<family>.cpp. An op that is missing there is
// invisible to tools and tests.
OpInfos attention_ops();
OpInfos boxes_ops();
OpInfos conv_ops();
OpInfos elementwise_ops();
OpInfos index_ops();
OpInfos loss_ops();
OpInfos matmul_ops();
OpInfos norm_ops();
OpInfos pairs_ops();  // elementwise
OpInfos pool_ops();
OpInfos random_ops();
OpInfos reduce_ops();
OpInfos rnn_ops();
OpInfos shape_ops();
OpInfos softmax_ops();

// All built-in ops, sorted by name. Throws InternalError when two ops share a name.
OpInfos all_op_infos();

// The op of that name: built-in, or applied by the program from outside the tree; nullptr if unknown.
const OpInfo* find_op(std::string_view name);
// All names that find_op knows, sorted.
std::vector<std::string> op_names();

}  // namespace tandem
