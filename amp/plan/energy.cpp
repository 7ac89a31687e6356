#include "amp/plan/energy.h"

#include <algorithm>

#include "amp/plan/max_flow.h"
#include "core/error.h"

namespace tandem::amp::plan {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;

}  // namespace

Energy::Energy(int variables)
    : costs_(static_cast<std::size_t>(variables)), fixed_(static_cast<std::size_t>(variables)) {}

void Energy::cost(int variable, std::int64_t f32, std::int64_t low) {
  Cost& cost = costs_[static_cast<std::size_t>(variable)];
  cost.f32 += f32;
  cost.low += low;
}

void Energy::fix(int variable, bool low) {
  std::optional<bool>& fixed = fixed_[static_cast<std::size_t>(variable)];
  contradicts_ |= fixed.value_or(low) != low;
  fixed = low;
}

void Energy::tie(int u, int v) {
  implies(u, v);
  implies(v, u);
}

void Energy::down_cast(int of, std::vector<int> users, std::int64_t ns) {
  ensure(ns >= 0, "plan", "a cast costs {} ns, expected at least 0", ns);
  if (!users.empty() && ns > 0) casts_.push_back({of, std::move(users), ns, true});
}

void Energy::up_cast(int of, std::vector<int> users, std::int64_t ns) {
  ensure(ns >= 0, "plan", "a cast costs {} ns, expected at least 0", ns);
  if (!users.empty() && ns > 0) casts_.push_back({of, std::move(users), ns, false});
}

std::optional<std::int64_t> Energy::of(const Labels& labels) const {
  ensure(labels.size() == costs_.size(), "plan", "{} labels for {} variables", labels.size(), costs_.size());
  if (contradicts_) return std::nullopt;
  const auto at = [&](int variable) -> bool { return labels[static_cast<std::size_t>(variable)]; };
  std::int64_t sum = constant_;
  for (std::size_t v = 0; v < costs_.size(); ++v) {
    if (fixed_[v].value_or(labels[v]) != labels[v]) return std::nullopt;
    sum += labels[v] ? costs_[v].low : costs_[v].f32;
  }
  for (const auto& [u, v] : implications_)
    if (at(u) && !at(v)) return std::nullopt;
  for (const Cast& cast : casts_) {
    const bool low = at(cast.of);
    if (low == cast.down) continue;
    if (std::ranges::any_of(cast.users, [&](int user) { return at(user) != low; })) sum += cast.ns;
  }
  return sum;
}

// Network of an energy: a node per variable and per cast, then source and sink. An arc's capacity is paid
// when its tail is on the source's side (16 bits) and its head is not.
class EnergyNetwork {
 public:
  explicit EnergyNetwork(const Energy& energy) : energy_(energy) {
    source_ = energy.variables() + static_cast<int>(energy.casts_.size());
    sink_ = source_ + 1;
    for (int v = 0; v < energy.variables(); ++v) {
      const Energy::Cost& cost = energy.costs_[static_cast<std::size_t>(v)];
      const std::int64_t least = std::min(cost.f32, cost.low);
      add(source_, v, cost.f32 - least);
      add(v, sink_, cost.low - least);
    }
    int node = energy.variables();
    for (const Energy::Cast& cast : energy.casts_) add(cast, node++);
    for (const auto& [u, v] : energy.implications_) must_.push_back({u, v});
    for (int v = 0; v < energy.variables(); ++v) {
      const std::optional<bool> fixed = energy.fixed_[static_cast<std::size_t>(v)];
      if (fixed) must_.push_back(*fixed ? std::pair(source_, v) : std::pair(v, sink_));
    }
  }

  std::optional<Labels> cut() {
    if (energy_.contradicts_ || forced_apart()) return std::nullopt;
    // Every finite cut costs less, and one exists.
    const std::int64_t infinite = total_ + 1;
    for (const auto& [u, v] : must_) arcs_.push_back({u, v, infinite});
    const FlowCut found = minimum_cut(sink_ + 1, arcs_, source_, sink_);
    ensure(found.flow < infinite, "plan", "a cut of {} ns, where all costs add up to {}", found.flow, total_);
    return Labels(found.source_side.begin(), found.source_side.begin() + energy_.variables());
  }

 private:
  void add(int from, int to, std::int64_t capacity) {
    if (capacity == 0) return;
    arcs_.push_back({from, to, capacity});
    require(!__builtin_add_overflow(total_, capacity, &total_) && total_ < kMost, "plan",
            "costs sum to more than 2^62 ns, about 146 years; look for a wrong time among them");
  }

  // A 16-bit user forces the node of a down-cast to the source's side, an f32 user that of an up-cast to the
  // sink's. Otherwise the node takes the free side.
  void add(const Energy::Cast& cast, int node) {
    if (cast.down) {
      add(node, cast.of, cast.ns);
    } else {
      add(cast.of, node, cast.ns);
    }
    for (const int user : cast.users)
      must_.push_back(cast.down ? std::pair(user, node) : std::pair(node, user));
  }

  // Whether a variable fixed to 1 implies one fixed to 0.
  bool forced_apart() const {
    std::vector<std::vector<int>> next(static_cast<std::size_t>(sink_ + 1));
    for (const auto& [u, v] : must_) next[static_cast<std::size_t>(u)].push_back(v);
    std::vector<bool> seen(next.size());
    std::vector<int> due{source_};
    while (!due.empty()) {
      const auto node = static_cast<std::size_t>(due.back());
      due.pop_back();
      if (seen[node]) continue;
      seen[node] = true;
      due.insert(due.end(), next[node].begin(), next[node].end());
    }
    return seen[static_cast<std::size_t>(sink_)];
  }

  const Energy& energy_;
  int source_ = 0, sink_ = 0;
  std::int64_t total_ = 0;  // of the finite capacities
  std::vector<Arc> arcs_;
  std::vector<std::pair<int, int>> must_;  // arcs that no cut may sever
};

std::optional<Minimum> minimum(const Energy& energy) {
  std::optional<Labels> labels = EnergyNetwork(energy).cut();
  if (!labels) return std::nullopt;
  const std::optional<std::int64_t> ns = energy.of(*labels);
  ensure(ns.has_value(), "plan", "the cut of {} variables breaks an implication", energy.variables());
  return Minimum{std::move(*labels), *ns};
}

}  // namespace tandem::amp::plan
