// A graph in which every cast is a node of its own: what the cast rules (amp/plan/cast_rules.h) work on.
#pragma once

#include <vector>

#include "amp/plan/graph.h"
#include "core/dtype.h"

namespace tandem::amp::plan {

// How a cast is made.
enum class How : std::uint8_t {
  kernel,        // by itself, on the tape
  store,         // by the op that writes the tensor
  load,          // by the op that reads it
  working_copy,  // of a parameter: once a step, by the update
  once,          // of what the step is given: once for each version of its storage
};
// "kernel", "store", "load", "copy", "once".
const char* name_of(How how);
std::optional<How> how_from_name(std::string_view name);

struct TypedNode {
  static constexpr int kCast = -1;

  int op = kCast;           // of the graph
  std::vector<Read> reads;  // of nodes
  DType type = DType::f32;  // of the results; of a cast, what it casts to
  How how = How::kernel;    // of a cast
  bool rounds = false;      // of an op: it computes an f32 result and stores it in 16 bits

  bool is_cast() const { return op == kCast; }
  bool operator==(const TypedNode&) const = default;
};

// Nodes come after what they read, ops in their order, a cast right before its first reader.
struct TypedGraph {
  Graph graph;
  std::vector<TypedNode> nodes;

  const TypedNode& at(int node) const { return nodes[static_cast<std::size_t>(node)]; }
  TypedNode& at(int node) { return nodes[static_cast<std::size_t>(node)]; }
  // The result that a node makes: of a cast, that of what it casts.
  const Result& result(int node, int result) const;
  bool operator==(const TypedGraph&) const = default;
};

// The graph of an assignment, `low` being its 16-bit type: before each product a cast for every operand of
// another type; nothing is shared.
TypedGraph typed(const Graph& graph, const Assignment& assignment, DType low);
// The graph of a painting, as frameworks make it whose ops want all data in their own type: a cast on every
// edge between two colours.
TypedGraph typed_edges(const Graph& graph, const std::vector<bool>& painted, DType low);

// A read of one result: read `read` of node `node`.
struct ReadAt {
  int node = 0, read = 0;
};
// By node and result.
std::vector<std::vector<std::vector<ReadAt>>> reads_of(const TypedGraph& graph);

// Without casts that nobody reads, in the order above. Passes end with this.
TypedGraph in_order(TypedGraph graph);

struct CastCount {
  int kernels = 0, stores = 0, copies = 0, once = 0;

  bool operator==(const CastCount&) const = default;
};
CastCount count_casts(const TypedGraph& graph);

}  // namespace tandem::amp::plan
