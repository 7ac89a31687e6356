#include "amp/plan/cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "amp/plan/prediction.h"
#include "core/error.h"

namespace tandem::amp::plan {

namespace {

// Far above every trade, and far below overflow of penalties: 2⁵⁰ ns, 13 days, for all of them together.
constexpr double kAllPenalties = 0x1p50;

double largest_lambda(const Penalty& penalty) {
  double sum = 0.0;
  for (const double amount : penalty.operands) sum += std::abs(amount);
  for (const double amount : penalty.out) sum += std::abs(amount);
  return sum > 0.0 ? kAllPenalties / sum : 0.0;
}

// Finds the corners between two trades, at the slope where both cost the same.
class Hull {
 public:
  Hull(const Graph& graph, const Freedom& freedom, const Penalty& penalty, int most)
      : graph_(graph), freedom_(freedom), penalty_(penalty), most_(static_cast<std::size_t>(most)) {}

  std::vector<Trade> corners() {
    const Trade fastest = at(0.0), least = at(largest_lambda(penalty_));
    corners_ = {fastest};
    if (least.penalty < fastest.penalty) {
      corners_.push_back(least);
      refine(fastest, least);
    }
    std::ranges::sort(corners_, [](const Trade& a, const Trade& b) {
      return a.ns != b.ns ? a.ns < b.ns : a.penalty < b.penalty;
    });
    // Equal penalties come only from rounding; the faster one stays.
    std::vector<Trade> kept;
    for (Trade& trade : corners_)
      if (kept.empty() || trade.penalty < kept.back().penalty) kept.push_back(std::move(trade));
    return kept;
  }

 private:
  Trade at(double lambda) const {
    Trade trade{.assignment = cut(graph_, freedom_, penalty_, lambda)};
    trade.ns = predict(graph_, trade.assignment).total();
    trade.penalty = penalty_.of(graph_, trade.assignment);
    return trade;
  }

  void refine(const Trade& fast, const Trade& low) {
    if (corners_.size() >= most_ || low.ns <= fast.ns) return;
    const double lambda = static_cast<double>(low.ns - fast.ns) / (fast.penalty - low.penalty);
    const Trade between = at(lambda);
    if (between.penalty <= low.penalty || between.penalty >= fast.penalty) return;
    // On the line itself there is no corner, nor within half a ns of rounding per op.
    const double saved =
        lambda * (fast.penalty - between.penalty) - static_cast<double>(between.ns - fast.ns);
    if (saved <= static_cast<double>(graph_.count())) return;
    corners_.push_back(between);
    refine(fast, between);
    refine(between, low);
  }

  const Graph& graph_;
  const Freedom& freedom_;
  const Penalty& penalty_;
  const std::size_t most_;
  std::vector<Trade> corners_;
};

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

Assignment cut(const Graph& graph, const Freedom& freedom) { return cut(graph, freedom, {}, 0.0); }

Assignment cut(const Graph& graph, const Freedom& freedom, const Penalty& penalty, double lambda) {
  const GraphEnergy energy(graph, freedom, penalty, lambda);
  const std::optional<Minimum> found = minimum(energy.energy());
  if (!found) fail_tied(graph);
  return energy.assignment(found->labels);
}

std::vector<Trade> frontier(const Graph& graph, const Freedom& freedom, const Penalty& penalty, int most) {
  return Hull(graph, freedom, penalty, most).corners();
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
