// Policy "colours": the lists of TensorFlow's graph rewrite
// (tensorflow/core/grappler/optimizers/auto_mixed_precision.cc). See amp/plan/pai_policy.h for "growth".
//
// Products are allowed 16 bits. Ops that are dangerous in 16 bits deny them to their readers unless those are
// on a better list. Ops between two allowed ops are then allowed, and finally harmless ops next to allowed
// ones. In Tandem the graph is that of forward; backward has the types of forward.
#pragma once

#include <span>
#include <vector>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// List of an op.
enum class ListKind : std::uint8_t {
  allow,     // 16 bits are fast and safe
  deny,      // dangerous in 16 bits, and so are its readers
  infer,     // safe, unless it follows a denied op; allowed only between allowed ops
  clear,     // keeps the values of its inputs: follows its neighbours
  unlisted,  // f32; nothing propagates through it
};

// By cast rule: `lower` allow, `fp32` and `banned` deny; of `widest` and `neutral` ops, those that keep
// values (keeps_values in autograd/op_traits.h) clear, the others infer. Sources and ops without a rule are
// unlisted.
std::vector<ListKind> op_lists(const Graph& graph);

struct AllowDeny {
  std::vector<bool> allow, deny;  // of every op; the others stay f32
};

// `lists` has a list for every op. Ops pinned to 16 bits count as products. Ops pinned to f32, fetched or
// without a useful 16-bit kernel are never allowed, but denial passes through them. Only `data` inputs are
// followed.
AllowDeny tf_policy(const Graph& graph, std::span<const ListKind> lists);

// Allowed ops compute and store in 16 bits. Views have the type of their base: a cast in front of a view
// moves behind it.
Assignment allowed_types(const Graph& graph, const std::vector<bool>& allowed);

}  // namespace tandem::amp::plan
