#include "amp/plan/cut.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

// Names two ops in a chain of ties that are pinned to different types.
[[noreturn]] void fail_tied(const Graph& graph) {
  std::vector<int> group(graph.ops.size());
  std::iota(group.begin(), group.end(), 0);
  for (const auto& [a, b] : graph.ties) {
    const int from = group[static_cast<std::size_t>(a)], to = group[static_cast<std::size_t>(b)];
    std::ranges::replace(group, from, to);
  }
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = i + 1; j < group.size(); ++j) {
      const Op &a = graph.ops[i], &b = graph.ops[j];
      if (group[i] != group[j] || a.pin == b.pin) continue;
      throw UserError(
          "plan",
          fmt::format("{} and {} must have the same types, but are pinned to different ones; pin both, "
                      "or one of them",
                      to_string(a.key), to_string(b.key)));
    }
  throw InternalError("plan",
                      fmt::format("no assignment of {} ops satisfies all constraints", graph.count()));
}

// Reasons other than cost: a pin, or a rule without choice.
std::optional<Why> settled(const Op& op) {
  if (op.pin.operands || op.pin.out) return op.pin.why;
  const bool follows = op.rule == CastRule::neutral || op.rule == CastRule::widest;
  if (op.kind != Kind::op || !op.capable || op.fetched) return Why::rule;
  if (is_product(op) || (follows && reads_data(op))) return std::nullopt;
  return Why::rule;
}

// Cost of turning one op alone to 16 bits; absent when forbidden.
std::optional<std::int64_t> turning(const GraphEnergy& energy, const Assignment& assignment, std::size_t op,
                                    Types types) {
  Assignment other = assignment;
  other[op] = types;
  const auto turned = energy.of(other), now = energy.of(assignment);
  if (!turned || !now) return std::nullopt;
  return *turned - *now;
}

Why why_full(const GraphEnergy& energy, const Graph& graph, const Assignment& assignment, std::size_t index,
             bool by_lists) {
  const Op& op = graph.ops[index];
  // With its operands: a product whose operands gain may lose with its result, and vice versa.
  std::optional<std::int64_t> least;
  for (const bool operands : {false, true})
    for (const bool out : {false, true}) {
      if ((!operands && !out) || (operands && !is_product(op))) continue;
      const auto more = turning(energy, assignment, index, {operands, out});
      if (more) least = std::min(least.value_or(*more), *more);
    }
  if (!least) return by_lists ? Why::rule : Why::strict;
  if (*least == 0) return Why::tie;
  return *least > 0 ? Why::loss : Why::rule;
}

}  // namespace

Assignment cut(const Graph& graph, const Freedom& freedom) {
  const GraphEnergy energy(graph, freedom);
  const std::optional<Minimum> found = minimum(energy.energy());
  if (!found) fail_tied(graph);
  return energy.assignment(found->labels);
}

std::vector<Why> reasons(const Graph& graph, const Assignment& assignment, const Freedom& freedom,
                         bool by_lists) {
  check(graph, assignment);
  const GraphEnergy energy(graph, freedom);
  const ReaderTable readers = readers_of(graph);
  std::vector<Why> reasons;
  for (int i = 0; i < graph.count(); ++i) {
    const int root = root_of(graph, i);
    if (root != i) {
      reasons.push_back(reasons[static_cast<std::size_t>(root)]);
      continue;
    }
    const auto index = static_cast<std::size_t>(i);
    const Types types = assignment[index];
    const std::optional<Why> because = settled(graph.ops[index]);
    if (rounds_early(graph, readers, assignment, i) && !by_lists) {
      reasons.push_back(Why::round_early);
    } else if (because) {
      reasons.push_back(*because);
    } else if (types.operands || types.out) {
      reasons.push_back(by_lists ? Why::rule : Why::gain);
    } else {
      reasons.push_back(why_full(energy, graph, assignment, index, by_lists));
    }
  }
  return reasons;
}

}  // namespace tandem::amp::plan
