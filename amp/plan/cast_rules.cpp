#include "amp/plan/cast_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "core/convert.h"

namespace tandem::amp::plan {

namespace {

using Reads = std::vector<std::vector<std::vector<ReadAt>>>;

const std::vector<ReadAt>& readers_in(const Reads& reads, const Read& of) {
  return reads[static_cast<std::size_t>(of.op)][static_cast<std::size_t>(of.result)];
}

// Lets whoever reads `cast` read `instead`.
void redirect(TypedGraph& graph, const Reads& reads, int cast, const Read& instead) {
  for (const ReadAt& at : reads[static_cast<std::size_t>(cast)][0]) {
    Read& read = graph.at(at.node).reads[static_cast<std::size_t>(at.read)];
    read.op = instead.op;
    read.result = instead.result;
  }
}

// Every bit of significand and exponent that `narrow` has, `wide` has.
bool holds_all_of(DType wide, DType narrow) {
  return wide == narrow || (wide == DType::f64 && is_floating(narrow)) ||
         (wide == DType::f32 && is_16bit(narrow));
}

// Makes one cast of those that cast the same thing to the same type, where `shares` says so of the first.
TypedGraph merged(TypedGraph graph, const std::function<bool(const TypedNode&)>& shares) {
  std::map<std::tuple<int, int, DType>, int> first;
  std::vector<int> instead(graph.nodes.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    TypedNode& node = graph.at(n);
    for (Read& read : node.reads) read.op = instead[static_cast<std::size_t>(read.op)];
    instead[static_cast<std::size_t>(n)] = n;
    if (!node.is_cast() || !shares(node)) continue;
    const Read& of = node.reads.front();
    instead[static_cast<std::size_t>(n)] =
        first.emplace(std::tuple(of.op, of.result, node.type), n).first->second;
  }
  return in_order(std::move(graph));
}

// Folds one pair; false when there is none.
bool fold_one(TypedGraph& graph) {
  const Reads reads = reads_of(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    TypedNode& outer = graph.at(n);
    if (!outer.is_cast() || !graph.at(outer.reads.front().op).is_cast()) continue;
    const int middle = outer.reads.front().op;
    const Read source = graph.at(middle).reads.front();
    const DType from = graph.at(source.op).type;
    if (!may_fold(from, graph.at(middle).type, outer.type)) continue;
    const bool gradient = graph.result(source.op, source.result).gradient;
    if (gradient && readers_in(reads, {middle, 0}).size() > 1) continue;
    if (from != outer.type) {
      outer.reads.front() = source;
      return true;
    }
    // Gradients of the outer cast's readers would meet those of the source's without being rounded first.
    if (gradient && readers_in(reads, {n, 0}).size() > 1 && readers_in(reads, source).size() > 1) continue;
    redirect(graph, reads, n, source);
    return true;
  }
  return false;
}

// Whether whoever reads a result multiplies it, views of it included.
bool only_multiplied(const TypedGraph& graph, const Reads& reads, const Read& of) {
  return std::ranges::all_of(readers_in(reads, of), [&](const ReadAt& at) {
    const TypedNode& reader = graph.at(at.node);
    if (reader.is_cast()) return false;
    const Op& op = graph.graph.at(reader.op);
    if (!op.view) return is_product(op) && reader.reads[static_cast<std::size_t>(at.read)].role == Role::data;
    for (std::size_t r = 0; r < op.results.size(); ++r)
      if (!only_multiplied(graph, reads, {at.node, static_cast<int>(r)})) return false;
    return true;
  });
}

// The type that products want every result of a node in, each by one cast that only they read; else f32.
DType wanted_by_products(const TypedGraph& graph, const Reads& reads, int node) {
  std::optional<DType> wanted;
  for (const std::vector<ReadAt>& readers : reads[static_cast<std::size_t>(node)]) {
    if (readers.empty()) continue;
    const TypedNode& cast = graph.at(readers.front().node);
    const bool fits = readers.size() == 1 && cast.is_cast() && is_16bit(cast.type) &&
                      wanted.value_or(cast.type) == cast.type &&
                      only_multiplied(graph, reads, {readers.front().node, 0});
    if (!fits) return DType::f32;
    wanted = cast.type;
  }
  return wanted.value_or(DType::f32);
}

}  // namespace

bool may_fold(DType from, DType middle, DType to) {
  return is_floating(from) && is_floating(middle) && is_floating(to) && holds_all_of(middle, from);
}

bool is_representable(double value, DType type) {
  if (std::isnan(value)) return true;
  switch (type) {
    case DType::f64:
      return true;
    case DType::f32:
      return static_cast<double>(static_cast<float>(value)) == value;
    case DType::f16:
      return static_cast<double>(widen(convert<Half>(value))) == value;
    case DType::bf16:
      return static_cast<double>(widen(convert<BFloat16>(value))) == value;
    default:
      return false;
  }
}

TypedGraph fold_casts(TypedGraph graph) {
  while (fold_one(graph)) graph = in_order(std::move(graph));
  return in_order(std::move(graph));
}

TypedGraph store_casts(TypedGraph graph) {
  const Reads reads = reads_of(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    TypedNode& node = graph.at(n);
    if (node.is_cast() || node.type != DType::f32) continue;
    const Op& op = graph.graph.at(node.op);
    if (op.view || op.keeps_output || !may_lower(op)) continue;
    const DType wanted = wanted_by_products(graph, reads, n);
    if (wanted == DType::f32) continue;
    for (std::size_t r = 0; r < op.results.size(); ++r)
      for (const ReadAt& at : reads[static_cast<std::size_t>(n)][r])
        redirect(graph, reads, at.node, {n, static_cast<int>(r)});
    node.type = wanted;
    node.rounds = true;
  }
  return in_order(std::move(graph));
}

TypedGraph load_casts(TypedGraph graph) {
  const Reads reads = reads_of(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const TypedNode& cast = graph.at(n);
    if (!cast.is_cast()) continue;
    const Read source = cast.reads.front();
    if (!holds_all_of(cast.type, graph.at(source.op).type)) continue;
    const std::vector<ReadAt>& readers = readers_in(reads, {n, 0});
    if (readers.size() > 1 && graph.result(source.op, source.result).gradient) continue;
    for (const ReadAt& at : readers) {
      TypedNode& reader = graph.at(at.node);
      if (reader.is_cast()) continue;
      const Op& op = graph.graph.at(reader.op);
      Read& read = reader.reads[static_cast<std::size_t>(at.read)];
      if (op.view || (is_product(op) && read.role == Role::data)) continue;
      read.op = source.op;
      read.result = source.result;
    }
  }
  return in_order(std::move(graph));
}

TypedGraph share_casts(TypedGraph graph) {
  return merged(std::move(graph), [](const TypedNode&) { return true; });
}

TypedGraph hoist_parameter_casts(TypedGraph graph) {
  const auto of_parameter = [&graph](const TypedNode& cast) {
    const TypedNode& source = graph.at(cast.reads.front().op);
    return !source.is_cast() && graph.graph.at(source.op).kind == Kind::parameter;
  };
  for (TypedNode& node : graph.nodes)
    if (node.is_cast() && of_parameter(node)) node.how = How::working_copy;
  return merged(std::move(graph), [](const TypedNode& cast) { return cast.how == How::working_copy; });
}

TypedGraph keep_constant_casts(TypedGraph graph) {
  for (TypedNode& node : graph.nodes) {
    if (!node.is_cast()) continue;
    const Read& read = node.reads.front();
    const TypedNode& source = graph.at(read.op);
    if (!source.is_cast() && graph.graph.at(source.op).kind == Kind::input &&
        !graph.result(read.op, read.result).gradient)
      node.how = How::once;
  }
  return merged(std::move(graph), [](const TypedNode& cast) { return cast.how == How::once; });
}

TypedGraph without_needless_casts(TypedGraph graph, bool share) {
  // What one rule changes may be what another waits for. Casts become fewer, or of fewer values, or move,
  // narrowing ones towards what the step is given and widening ones away from it: this ends.
  for (TypedGraph before; !(before == graph);) {
    before = graph;
    if (share) graph = share_casts(std::move(graph));
    graph = move_forward_casts(move_exact_casts(fold_casts(std::move(graph))));
    graph = load_casts(store_casts(std::move(graph)));
  }
  return keep_constant_casts(hoist_parameter_casts(std::move(graph)));
}

}  // namespace tandem::amp::plan
