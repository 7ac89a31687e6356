// The policy `colours`: TensorFlow's rewrite of a graph by lists of ops
// (tensorflow/core/grappler/optimizers/auto_mixed_precision.cc).
//
// Products are painted 16-bit. An op that is dangerous in 16 bits denies them to the ops that follow, up to
// the next op on the allow list. Ops between two painted ones are painted, and then harmless ops that touch
// painted ones. Here the graph is that of forward; backward has the types of forward.
#pragma once

#include <span>
#include <vector>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// The list that an op stands on.
enum class ListKind : std::uint8_t {
  allow,     // 16 bits are fast and safe
  deny,      // dangerous in 16 bits, and so is what is computed from it
  infer,     // safe, unless it follows a denied op; painted between painted ops only
  clear,     // its values are those of its inputs: as its neighbours
  unlisted,  // f32, and no colour passes it
};

// By cast rule: `lower` allow, `fp32` and `banned` deny; of `widest` and `neutral` ops, those that keep
// values (keeps_values in autograd/op_traits.h) clear, the others infer. Sources and ops without a rule are
// unlisted.
std::vector<ListKind> paints(const Graph& graph);

struct Colouring {
  std::vector<bool> allow, deny;  // of every op; the others stay f32
};

// `paints` has a list for every op. Pinned to 16 bits: as if on the list of products. Pinned to f32, fetched
// or not capable: never painted, though denial passes. Data is followed, `keep` is not.
Colouring tf_policy(const Graph& graph, std::span<const ListKind> paints);

// Painted ops compute and store in 16 bits. Views have the type of what they are views of: a cast in front of
// a view stands behind it then.
Assignment painted_types(const Graph& graph, const std::vector<bool>& painted);

}  // namespace tandem::amp::plan
