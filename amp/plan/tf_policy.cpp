#include "amp/plan/tf_policy.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

ListKind list_of(const Op& op) {
  if (op.kind != Kind::op) return ListKind::unlisted;
  switch (op.rule) {
    case CastRule::lower:
      return ListKind::allow;
    case CastRule::fp32:
    case CastRule::banned:
      return ListKind::deny;
    case CastRule::widest:
    case CastRule::neutral:
      return keeps_values(op.op_kind) ? ListKind::clear : ListKind::infer;
    case CastRule::none:
      break;
  }
  return ListKind::unlisted;
}

// The passes over one graph. Each pass only adds.
class ListPasses {
 public:
  ListPasses(const Graph& graph, std::span<const ListKind> lists)
      : graph_(graph),
        lists_(lists),
        neighbours_(neighbours_of(graph)),
        allow_(graph.ops.size()),
        deny_(graph.ops.size()) {}

  AllowDeny run() {
    seed();
    if (std::ranges::find(allow_, true) == allow_.end()) return {allow_, deny_};
    deny_downstream();
    allow_between();
    allow_clear_neighbours();
    return {allow_, deny_};
  }

 private:
  using Set = std::vector<bool>;

  bool is(std::size_t op, ListKind list) const { return lists_[op] == list; }
  // Clear and infer ops that may be allowed and are not denied.
  bool open(std::size_t op) const {
    return (is(op, ListKind::clear) || is(op, ListKind::infer)) && may_lower(graph_.ops[op]) && !deny_[op];
  }

  void seed() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      allow_[i] = (is(i, ListKind::allow) || op.pin.out.value_or(false)) && may_lower(op);
    }
  }

  // Propagates denial along the data, through infer ops and through clear ones that lead to denied or infer
  // ops.
  void deny_downstream() {
    const std::size_t count = graph_.ops.size();
    Set passes(count);
    for (std::size_t i = count; i-- > 0;) {
      passes[i] = is(i, ListKind::deny) || is(i, ListKind::infer);
      if (!is(i, ListKind::clear)) continue;
      for (const int after : neighbours_.after[i]) {
        const auto next = static_cast<std::size_t>(after);
        if (is(next, ListKind::deny) || is(next, ListKind::infer) ||
            (is(next, ListKind::clear) && passes[next]))
          passes[i] = true;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      deny_[i] = is(i, ListKind::deny);
      if (!passes[i]) continue;
      for (const int before : neighbours_.before[i])
        if (deny_[static_cast<std::size_t>(before)]) deny_[i] = true;
    }
    for (std::size_t i = 0; i < count; ++i)
      if (graph_.ops[i].pin.out.value_or(false)) deny_[i] = false;
  }

  // Allows open ops on a path of open ops between two seeds.
  void allow_between() {
    const std::size_t count = graph_.ops.size();
    Set downstream(count), upstream(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (allow_[i] || !open(i)) continue;
      for (const int before : neighbours_.before[i]) {
        const auto b = static_cast<std::size_t>(before);
        if (allow_[b] || downstream[b]) downstream[i] = true;
      }
    }
    for (std::size_t i = count; i-- > 0;) {
      if (!downstream[i]) continue;
      for (const int after : neighbours_.after[i]) {
        const auto a = static_cast<std::size_t>(after);
        if (allow_[a] || upstream[a]) upstream[i] = true;
      }
    }
    for (std::size_t i = 0; i < count; ++i)
      if (upstream[i]) allow_[i] = true;
  }

  // Allows clear ops that clear ops connect to an allowed one, in either direction.
  void allow_clear_neighbours() {
    std::vector<int> due;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (allow_[i]) due.push_back(static_cast<int>(i));
    const auto visit = [&](int op) {
      const auto index = static_cast<std::size_t>(op);
      if (allow_[index] || !is(index, ListKind::clear) || !open(index)) return;
      allow_[index] = true;
      due.push_back(op);
    };
    while (!due.empty()) {
      const auto op = static_cast<std::size_t>(due.back());
      due.pop_back();
      for (const int before : neighbours_.before[op]) visit(before);
      for (const int after : neighbours_.after[op]) visit(after);
    }
  }

  const Graph& graph_;
  const std::span<const ListKind> lists_;
  const Neighbours neighbours_;
  Set allow_, deny_;
};

}  // namespace

std::vector<ListKind> op_lists(const Graph& graph) {
  std::vector<ListKind> lists;
  for (const Op& op : graph.ops) lists.push_back(list_of(op));
  return lists;
}

AllowDeny tf_policy(const Graph& graph, std::span<const ListKind> lists) {
  ensure(lists.size() == graph.ops.size(), "plan", "{} lists for {} ops", lists.size(), graph.ops.size());
  return ListPasses(graph, lists).run();
}

Assignment allowed_types(const Graph& graph, const std::vector<bool>& allowed) {
  Assignment assignment;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    assignment.push_back({.operands = is_product(op) && allowed[i], .out = allowed[i]});
    if (op.kind != Kind::op) assignment.back().out = op.pin.out.value_or(false);
  }
  follow_roots(graph, assignment);
  return assignment;
}

}  // namespace tandem::amp::plan
