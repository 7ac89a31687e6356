// Casts that are moved past ops which move values: rules 4 and 5.
#include <algorithm>
#include <optional>

#include "amp/plan/cast_rules.h"

namespace tandem::amp::plan {

namespace {

// One pass over the ops of some motions.
class CastMover {
 public:
  CastMover(TypedGraph graph, bool exact) : graph_(std::move(graph)), exact_(exact) {}

  // An up-move brings 16 bits nearer to where values come from, a down-move f32 nearer to where they go: none
  // undoes another.
  TypedGraph moved() {
    while (step()) graph_ = in_order(std::move(graph_));
    return in_order(std::move(graph_));
  }

 private:
  bool step() {
    reads_ = reads_of(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (passes(n) && (move_up(n) || move_down(n))) return true;
    return false;
  }

  // Whether values, and gradients where they flow, are the same on both sides.
  bool passes(int n) const {
    const TypedNode& node = graph_.at(n);
    if (node.is_cast()) return false;
    const Op& op = graph_.graph.at(node.op);
    if (exact_) return moves_gradients(op.op_kind);
    // Sums of gradients round elsewhere, and where rounding makes values equal or zero, the gradient goes to
    // another place, or to none.
    return keeps_values(op.op_kind) && !moves_gradients(op.op_kind) &&
           std::ranges::none_of(op.results, [](const Result& result) { return result.gradient; });
  }

  // A cast of every result that is read, each by one 16-bit cast of one type, becomes a cast of what is read.
  bool move_up(int n) {
    const Op& op = graph_.graph.at(graph_.at(n).op);
    if (graph_.at(n).type != DType::f32) return false;
    std::optional<DType> type;
    std::vector<int> casts;
    std::int64_t after = 0;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const std::vector<ReadAt>& readers = reads_[static_cast<std::size_t>(n)][r];
      if (readers.empty()) continue;
      const TypedNode& cast = graph_.at(readers.front().node);
      if (readers.size() > 1 || !cast.is_cast() || !is_16bit(cast.type) ||
          type.value_or(cast.type) != cast.type)
        return false;
      type = cast.type;
      casts.push_back(readers.front().node);
      after += op.results[r].elements;
    }
    if (!type || (op.op_kind == OpKind::pads && !is_representable(op.pad_value, *type))) return false;
    if (elements_to_cast(n, *type) > after) return false;
    put_casts_before(n, *type);
    for (const int cast : casts) skip(cast);
    return true;
  }

  std::int64_t elements_to_cast(int n, DType type) const {
    std::int64_t elements = 0;
    for (const Read& read : graph_.at(n).reads)
      if (read.role == Role::data && graph_.at(read.op).type != type)
        elements += graph_.result(read.op, read.result).elements;
    return elements;
  }

  void put_casts_before(int n, DType type) {
    std::vector<TypedNode> casts;
    int next = static_cast<int>(graph_.nodes.size());
    for (Read& read : graph_.at(n).reads) {
      if (read.role != Role::data || graph_.at(read.op).type == type) continue;
      casts.push_back({.reads = {{read.op, read.result, Role::data}}, .type = type});
      read.op = next++;
      read.result = 0;
    }
    graph_.at(n).type = type;
    graph_.at(n).rounds = false;
    graph_.nodes.insert(graph_.nodes.end(), casts.begin(), casts.end());
  }

  // Who read the cast reads what it casts.
  void skip(int cast) {
    const Read of = graph_.at(cast).reads.front();
    for (const ReadAt& at : reads_[static_cast<std::size_t>(cast)][0]) {
      Read& read = graph_.at(at.node).reads[static_cast<std::size_t>(at.read)];
      read.op = of.op;
      read.result = of.result;
    }
  }

  // Casts of everything that is read, of one type to another and for nobody else, become casts of the
  // results: narrowing ones where fewer values are cast then, widening ones where there are not more of them.
  bool move_down(int n) {
    std::optional<DType> from, to;
    std::int64_t before = 0, after = 0;
    int casts = 0, results = 0;
    for (const Read& read : graph_.at(n).reads) {
      if (read.role != Role::data) continue;
      const TypedNode& cast = graph_.at(read.op);
      if (!cast.is_cast() || reads_[static_cast<std::size_t>(read.op)][0].size() > 1) return false;
      const DType source = graph_.at(cast.reads.front().op).type;
      if (from.value_or(source) != source || to.value_or(cast.type) != cast.type) return false;
      from = source;
      to = cast.type;
      before += graph_.result(read.op, 0).elements;
      ++casts;
    }
    if (!to || graph_.at(n).type != *to) return false;
    const Op& op = graph_.graph.at(graph_.at(n).op);
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      if (reads_[static_cast<std::size_t>(n)][r].empty()) continue;
      after += op.results[r].elements;
      ++results;
    }
    const bool widening = is_16bit(*from) && *to == DType::f32,
               narrowing = *from == DType::f32 && is_16bit(*to);
    const bool fewer =
        narrowing ? after < before && results <= casts : widening && after <= before && results <= casts;
    if (!fewer || (op.op_kind == OpKind::pads && !is_representable(op.pad_value, *from))) return false;
    put_casts_behind(n, *from, *to);
    return true;
  }

  void put_casts_behind(int n, DType from, DType to) {
    for (Read& read : graph_.at(n).reads) {
      if (read.role != Role::data) continue;
      const Read of = graph_.at(read.op).reads.front();
      read.op = of.op;
      read.result = of.result;
    }
    graph_.at(n).type = from;
    for (std::size_t r = 0; r < reads_[static_cast<std::size_t>(n)].size(); ++r) {
      const int cast = static_cast<int>(graph_.nodes.size());
      graph_.nodes.push_back({.reads = {{n, static_cast<int>(r), Role::data}}, .type = to});
      for (const ReadAt& at : reads_[static_cast<std::size_t>(n)][r])
        graph_.at(at.node).reads[static_cast<std::size_t>(at.read)] = {
            cast, 0, graph_.at(at.node).reads[static_cast<std::size_t>(at.read)].role};
    }
  }

  TypedGraph graph_;
  const bool exact_;
  std::vector<std::vector<std::vector<ReadAt>>> reads_;
};

}  // namespace

TypedGraph move_exact_casts(TypedGraph graph) { return CastMover(std::move(graph), true).moved(); }

TypedGraph move_forward_casts(TypedGraph graph) { return CastMover(std::move(graph), false).moved(); }

}  // namespace tandem::amp::plan
