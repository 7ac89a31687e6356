#include "amp/plan/typed_graph.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

constexpr std::array<const char*, 5> kHowNames = {"kernel", "store", "load", "copy", "once"};

// Appends a cast of what `read` reads, and lets it read the cast.
void cast_to(std::vector<TypedNode>& nodes, Read& read, DType type) {
  nodes.push_back({.reads = {{read.op, read.result, Role::data}}, .type = type});
  read = {static_cast<int>(nodes.size()) - 1, 0, read.role};
}

// The types of data that an op computes from, after casts, decide whether its result is 16-bit by itself.
bool rounds_result(const Op& op, const TypedNode& node, const std::vector<TypedNode>& nodes) {
  if (op.kind != Kind::op || op.view || !is_16bit(node.type)) return false;
  if (op.rule == CastRule::fp32 || op.rule == CastRule::banned || !reads_data(op)) return true;
  return !std::ranges::all_of(node.reads, [&](const Read& read) {
    return read.role != Role::data || nodes[static_cast<std::size_t>(read.op)].type == node.type;
  });
}

}  // namespace

const char* name_of(How how) { return kHowNames[static_cast<std::size_t>(how)]; }

std::optional<How> how_from_name(std::string_view name) {
  const auto found = std::ranges::find(kHowNames, name);
  if (found == kHowNames.end()) return std::nullopt;
  return static_cast<How>(found - kHowNames.begin());
}

const Result& TypedGraph::result(int node, int result) const {
  while (at(node).is_cast()) {
    const Read& read = at(node).reads.front();
    node = read.op;
    result = read.result;
  }
  return graph.at(at(node).op).results[static_cast<std::size_t>(result)];
}

TypedGraph typed(const Graph& graph, const Assignment& assignment, DType low) {
  ensure(is_16bit(low), "plan", "the lower type is {}, expected f16 or bf16", name_of(low));
  check(graph, assignment);
  TypedGraph made{.graph = graph, .nodes = {}};
  std::vector<int> node_of;  // by op
  for (int i = 0; i < graph.count(); ++i) {
    const Op& op = graph.at(i);
    const Types types = assignment[static_cast<std::size_t>(i)];
    TypedNode node{.op = i, .reads = op.reads, .type = types.out ? low : DType::f32};
    const DType operands = types.operands ? low : DType::f32;
    for (Read& read : node.reads) {
      read.op = node_of[static_cast<std::size_t>(read.op)];
      if (is_product(op) && read.role == Role::data && made.at(read.op).type != operands)
        cast_to(made.nodes, read, operands);
    }
    node.rounds = rounds_result(op, node, made.nodes);
    node_of.push_back(static_cast<int>(made.nodes.size()));
    made.nodes.push_back(std::move(node));
  }
  return made;
}

TypedGraph typed_edges(const Graph& graph, const std::vector<bool>& painted, DType low) {
  ensure(is_16bit(low), "plan", "the lower type is {}, expected f16 or bf16", name_of(low));
  check(graph);
  TypedGraph made{.graph = graph, .nodes = {}};
  std::vector<int> node_of;
  for (int i = 0; i < graph.count(); ++i) {
    const Op& op = graph.at(i);
    TypedNode node{
        .op = i, .reads = op.reads, .type = painted[static_cast<std::size_t>(i)] ? low : DType::f32};
    for (Read& read : node.reads) {
      read.op = node_of[static_cast<std::size_t>(read.op)];
      if (read.role == Role::data && made.at(read.op).type != node.type) cast_to(made.nodes, read, node.type);
    }
    node.rounds = rounds_result(op, node, made.nodes);
    node_of.push_back(static_cast<int>(made.nodes.size()));
    made.nodes.push_back(std::move(node));
  }
  return made;
}

std::vector<std::vector<std::vector<ReadAt>>> reads_of(const TypedGraph& graph) {
  std::vector<std::vector<std::vector<ReadAt>>> reads;
  for (const TypedNode& node : graph.nodes)
    reads.emplace_back(node.is_cast() ? 1 : graph.graph.at(node.op).results.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (std::size_t r = 0; r < graph.nodes[n].reads.size(); ++r) {
      const Read& read = graph.nodes[n].reads[r];
      reads[static_cast<std::size_t>(read.op)][static_cast<std::size_t>(read.result)].push_back(
          {static_cast<int>(n), static_cast<int>(r)});
    }
  return reads;
}

TypedGraph in_order(TypedGraph graph) {
  std::vector<int> ops;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (!graph.nodes[n].is_cast()) ops.push_back(static_cast<int>(n));
  std::ranges::sort(ops, {}, [&](int node) { return graph.at(node).op; });
  std::vector<int> place(graph.nodes.size(), -1);
  std::vector<TypedNode> nodes;
  const auto put = [&](const auto& self, int node) -> void {
    if (place[static_cast<std::size_t>(node)] >= 0) return;
    TypedNode copy = graph.at(node);
    for (Read& read : copy.reads) {
      if (graph.at(read.op).is_cast()) self(self, read.op);
      const int moved = place[static_cast<std::size_t>(read.op)];
      ensure(moved >= 0, "plan", "node {} reads node {}, which does not come before it", node, read.op);
      read.op = moved;
    }
    place[static_cast<std::size_t>(node)] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(copy));
  };
  for (const int node : ops) put(put, node);
  graph.nodes = std::move(nodes);
  return graph;
}

CastCount count_casts(const TypedGraph& graph) {
  CastCount count;
  for (const TypedNode& node : graph.nodes) {
    count.stores += node.rounds;
    if (!node.is_cast()) continue;
    count.kernels += node.how == How::kernel;
    count.copies += node.how == How::working_copy;
    count.once += node.how == How::once;
  }
  return count;
}

}  // namespace tandem::amp::plan
